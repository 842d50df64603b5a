"""Loading in the background: the status tells what happens, and a failure can be mended by trying again."""

from __future__ import annotations

import threading

import pytest

from program.errors import LanguageModelError, LibraryMissing, ProgramError
from tests.fake_rag import FakeRag, load
from ui.backend import Backend, Loaded, Report, Status


def test_the_status_follows_loading_and_warming_up() -> None:
    step = threading.Semaphore(0)

    def slow(report: Report) -> Loaded:
        step.acquire()
        report(7, 16, "Reading the demo library")
        step.acquire()
        return load(lambda *_: None)

    backend = Backend(slow)
    backend.start()
    seen = []
    for status in backend.watch(0.01):
        seen.append(status)
        step.release()
    assert seen[0] == Status("loading", "Starting")
    assert Status("loading", "Reading the demo library 7/16", 7 / 16) in seen
    assert seen[-1] == Status("ready", "Ready: scripted program, 16 documents", 1.0)


def test_bytes_read_as_megabytes() -> None:
    seen: list[Status] = []

    def fetch(report: Report) -> Loaded:
        report(412_000_000, 1_117_320_768, "Downloading the weights")
        seen.append(backend.status)
        return load(lambda *_: None)

    backend = Backend(fetch)
    backend.start()
    backend.program()
    assert seen[0].message == "Downloading the weights 412 of 1117 MB"


def test_a_failure_is_told_and_the_next_start_tries_again() -> None:
    results = [LibraryMissing("There is no library at x.", "Ingest first."), None]

    def flaky(report: Report) -> Loaded:
        if error := results.pop(0):
            raise error
        return load(report)

    backend = Backend(flaky)
    backend.start()
    with pytest.raises(LibraryMissing, match=r"There is no library at x\. Ingest first\."):
        backend.program()
    assert backend.status.phase == "failed"
    backend.start()
    assert isinstance(backend.program(), FakeRag)


def test_an_unexpected_failure_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def crash(_: Report) -> Loaded:
        raise ZeroDivisionError("a secret detail")

    backend = Backend(crash)
    backend.start()
    with pytest.raises(ProgramError) as caught:
        backend.program()
    assert "secret" not in str(caught.value)
    assert "secret" in caplog.text


def test_without_a_language_model_the_program_is_ready_and_says_so() -> None:
    def warm_up(_: Report) -> None:
        raise LanguageModelError("The language model did not answer.", "Check RAG_LM_URL.")

    backend = Backend(lambda _: Loaded(FakeRag(), "scripted", False, warm_up))
    backend.start()
    backend.program()
    assert backend.status.phase == "ready"
    assert "quoted passages" in backend.status.message
    assert "Check RAG_LM_URL." in backend.status.message


def test_starting_twice_loads_once() -> None:
    count = 0

    def counting(report: Report) -> Loaded:
        nonlocal count
        count += 1
        return load(report)

    backend = Backend(counting)
    backend.start()
    backend.start()
    backend.program()
    backend.start()
    assert count == 1


def test_progress_goes_to_standard_error_once_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    backend = Backend(load)
    backend.start()
    backend.program()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("Reading the demo library") == 1
    assert captured.err.endswith("Ready: scripted program, 16 documents\n")
