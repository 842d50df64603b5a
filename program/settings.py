"""Every environment setting, in one model. `python -m program doctor` prints what is in force.

Names are the fields' with the prefix `RAG_`, for example `RAG_LM=openai/gpt-4o-mini`.
"""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path, user_data_path
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from program.errors import SettingsError

APP = "adaptive-rag"
ROOT = Path(__file__).resolve().parent.parent
BUNDLED = Path(__file__).resolve().parent / "bundled"


class Settings(BaseSettings):
    """What the environment says. Unset fields have defaults that need no key and no server."""

    model_config = SettingsConfigDict(env_prefix="RAG_", env_file=".env", extra="ignore", frozen=True)

    lm: str = Field("embedded", description="embedded, embedded/0.5b, openai/MODEL, ollama/MODEL, anthropic/MODEL, ...")
    lm_url: str | None = Field(None, description="base URL of an OpenAI-compatible server, used with lm=openai/MODEL")
    lm_key: SecretStr | None = Field(None, description="API key; the provider's own variable works too")
    lm_timeout: float = Field(120.0, gt=0, description="seconds for one language-model call")
    weights: Path | None = Field(None, description="folder that already holds the weights' files")
    encoder: str = Field("all-MiniLM-L6-v2", description="sentence encoder: a name, or a folder")
    reranker: str | None = Field(
        None, description="cross-encoder: a folder or hub name; auto when unset; none to switch off"
    )
    offline: bool = Field(False, description="never fetch anything")
    arxiv_url: str = Field("https://export.arxiv.org", description="arXiv, or a mirror that speaks its API")
    arxiv_pause: float = Field(3.0, ge=0, description="seconds between two requests; arXiv asks for 3")
    contact: str | None = Field(None, description="your mail address, told to arXiv with every request")
    data: Path = Field(default_factory=lambda: user_data_path(APP), description="where indexes are kept")
    cache: Path = Field(default_factory=lambda: user_cache_path(APP), description="where weights are kept")
    index: Path | None = Field(
        None, description="index folder; else your library if there is one, else the demo library"
    )
    weaviate_url: str | None = Field(
        None,
        validation_alias=AliasChoices("RAG_WEAVIATE_URL", "WEAVIATE_URL", "weaviate_url"),
        description="keep the libraries on this Weaviate server; the addresses of several nodes, commas between",
    )
    weaviate_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("RAG_WEAVIATE_KEY", "WEAVIATE_API_KEY", "weaviate_key"),
        description="the server's API key",
    )
    weaviate_grpc: str = Field("50051", description="its gRPC port, or HOST:PORT; one for all nodes, or one for each")
    weaviate_collection: str = Field(
        "AdaptiveRag", pattern=r"^[A-Z][A-Za-z0-9_]*$", description="name of the collections, a capital letter first"
    )
    weaviate_tenant: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="private space in collections that several share"
    )
    artifact: Path | None = Field(None, description="compiled program; else artifacts/default")
    back_matter: bool = Field(False, description="keep a PDF paper's acknowledgments and references")
    ocr_languages: str = Field(
        "eng", pattern=r"^[A-Za-z_]+(\+[A-Za-z_]+)*$", description="what Tesseract reads (deu+eng), none for no OCR"
    )


def settings_from(index: Path | None = None, artifact: Path | None = None) -> Settings:
    """The environment's settings, with what the command line says instead. Raises SettingsError."""
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = f"RAG_{'_'.join(map(str, first['loc'])).upper().removeprefix('RAG_')}"
        raise SettingsError(f"{name} is {first['input']!r}: {first['msg']}.", "Correct or unset it.") from error
    given = {"index": index, "artifact": artifact}
    return settings.model_copy(update={name: path for name, path in given.items() if path is not None})


def shipped(relative: str) -> Path:
    """A folder that ships with the program (`data/corpus`, `artifacts/default`): in a checkout at its root, in an
    installed wheel inside the package."""
    in_checkout = ROOT / relative
    return in_checkout if (ROOT / "pyproject.toml").exists() else BUNDLED / relative
