"""What every index must do, whichever engine keeps it; tests/test_retrieval_contract.py checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from program.retrieval.late import Packed, packed_width
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


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """One hybrid query. vector: float32 [d], unit length. title_weight: of the title in BM25; the text weighs 1."""

    text: str
    vector: NDArray[np.float32]
    k: int
    alpha: float
    fusion: Fusion
    filters: Filters = Filters()
    title_weight: float = 1.0

    @property
    def depth(self) -> int:
        """Hits that each leg gives to the fusion."""
        return max(self.k, LEG_DEPTH)


def check_vectors(vector: NDArray[np.float32], tokens: Packed, dimensions: int) -> None:
    """Raises ValueError when a chunk's vector or packed token vectors are not what an index of this width keeps."""
    fits = vector.shape == (dimensions,) and tokens.shape[1:] == (packed_width(dimensions),)
    if not fits or tokens.dtype != np.uint8 or not np.isfinite(vector).all():
        raise ValueError(f"vectors {vector.shape} and {tokens.dtype} {tokens.shape} do not fit, or are not finite")


class Index(Protocol):
    """Chunks with their vectors and their words, searched by both. All methods may be called from any thread.

    All methods raise LibraryError when the index cannot be read or written.
    """

    location: str
    engine: str  # what keeps it, in words
    encoder: str  # fingerprint of the encoder that made its vectors
    dimensions: int  # of its vectors

    def search_all(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """For each search the k best chunks, best first, ties by chunk id: `fuse` of the dense leg (cosine with
        `vector`) and the lexical leg (BM25 of `text`), each max(k, LEG_DEPTH) deep. alpha 0 is lexical only, 1 dense
        only. Every hit carries its cosine and its BM25, whichever leg found it. The searches are done side by side;
        what each finds does not depend on the others.

        BM25, the same number from every engine: the sum, over the text (weight 1) and the title (`title_weight`) of a
        chunk and over the `query_terms` of `text`, of weight idf f / (f + k1 (1 - b + b length / mean)). f: how often
        the term is there, as `analysis.terms` makes terms. mean: of the lengths that are not 0. k1 = 1.2, b = 0.75.
        idf: ln(1 + (N - n + 0.5) / (n + 0.5)) over N chunks; n is the mean, rounded down, of the term's document
        frequencies in text and title, over those of the two in which it occurs at all. Only chunks whose score is
        above 0 are in the leg."""
        ...

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
        """`search_all` of one."""
        return self.search_all([Search(text, vector, k, alpha, fusion, filters or Filters(), title_weight)])[0]

    def replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]],
        token_vectors: Sequence[Packed],
    ) -> None:
        """Put the document in the place of the one of that name, if any, in one step: a reader sees the old chunks or
        the new ones. vectors: float32 [chunks, d], or one of [d] for each chunk; token_vectors: those of each
        chunk, packed. Both are gone through once, in order, so that sequences may
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

    def chunks(self, name: str) -> list[Chunk]:
        """The chunks of a document, by position; none when there is no such document."""
        ...

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Chunk id to vector, float32 [d]; unknown ids are left out."""
        ...

    def token_vectors(self, ids: Sequence[str]) -> dict[str, Packed]:
        """Chunk id to packed token vectors; unknown ids are left out."""
        ...

    def inverse_document_frequency(self, terms: Sequence[str]) -> Mapping[str, float]:
        """Term (as `analysis.terms` makes them) to ln(1 + (N - n + 0.5) / (n + 0.5)), n of N chunks having the term."""
        ...

    def generation(self) -> int:
        """Another number whenever documents were put in, renamed or taken out."""
        ...

    def __len__(self) -> int:
        """Number of chunks."""
        ...

    def close(self) -> None: ...
