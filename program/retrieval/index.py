"""What every index must do, whichever engine keeps it; tests/test_retrieval_contract.py checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from program.types import Chunk, ChunkKind, Fusion, Hit

#: Hits each leg of a hybrid query gives to the fusion, at least: `search` takes max(k, LEG_DEPTH) of each.
LEG_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Filters:
    """Which chunks a search may return; None means any."""

    kind: ChunkKind | None = None
    document: str | None = None
    field: str | None = None
    year: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document in the index; `chunks` is counted by the index.

    sha256: of the file's content, so that an unchanged one is left alone. path: where it was read. stamp: what the file
    system said of it then, so that it need not even be opened; empty when that cannot be relied on.
    """

    name: str
    title: str
    sha256: str
    source: str = ""
    field: str = ""
    year: int | None = None
    chunks: int = 0
    characters: int = 0
    path: str = ""
    stamp: str = ""


class Index(Protocol):
    """Chunks with their vectors and their words, searched by both. All methods may be called from any thread.

    All methods raise LibraryError when the index cannot be read or written.
    """

    location: str
    encoder: str  # fingerprint of the encoder that made its vectors

    def search(
        self,
        text: str,
        vector: NDArray[np.float32],
        *,
        k: int,
        alpha: float,
        fusion: Fusion,
        filters: Filters | None = None,
        title_weight: float = 1.0,
    ) -> list[Hit]:
        """The k best chunks of a hybrid query, best first, ties by chunk id: `fuse` of the dense leg (cosine with
        `vector`, unit length) and the lexical leg (BM25 of `text`, titles weighted by `title_weight`), each
        max(k, LEG_DEPTH) deep. alpha 0 is lexical only, 1 dense only. Every hit carries its cosine and its BM25,
        whichever leg found it. The lexical leg holds only chunks that share a word with `text`."""
        ...

    def replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]],
        token_vectors: Sequence[NDArray[np.int8]],
    ) -> None:
        """Put the document in the place of the one of that name, if any, in one step: a reader sees the old chunks or
        the new ones. vectors: float32 [chunks, d], or one of [d] for each chunk; token_vectors: int8 [tokens, d] for
        each chunk, which are kept packed (`late.pack`). Both are gone through once, in order, so that sequences may
        load what they give. Raises ValueError for vectors that do not fit."""
        ...

    def rename(self, name: str, document: Document, id_of: Callable[[Chunk], str]) -> None:
        """Put `document` in the place of the one called `name`, whose chunks and vectors it takes over, and of the one
        of its own name, if that is another: in one step. Title, field and year must be the same; id_of: a chunk's id
        under its new name. Raises LibraryError when there is no document called `name`."""
        ...

    def delete(self, name: str) -> bool:
        """Take a document out; False when there is none of that name."""
        ...

    def documents(self) -> list[Document]:
        """All documents, by name."""
        ...

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Chunk id to vector, float32 [d]; unknown ids are left out."""
        ...

    def token_vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.uint8]]:
        """Chunk id to token vectors as `late.pack` packs them; unknown ids are left out."""
        ...

    def inverse_document_frequency(self, terms: Sequence[str]) -> Mapping[str, float]:
        """Term (as `analysis.terms` makes them) to ln(1 + (N - n + 0.5) / (n + 0.5)), n of N chunks having the term."""
        ...

    def __len__(self) -> int:
        """Number of chunks."""
        ...

    def close(self) -> None: ...
