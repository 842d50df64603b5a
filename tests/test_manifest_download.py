"""Downloads of a manifest's papers: resumed, checked, polite, and never more than was asked for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from program.errors import FetchError
from program.ingest import download
from program.ingest.download import Download, fetch
from program.ingest.files import find_files
from program.ingest.manifest import Entry, Manifest
from program.ingest.polite import ATTEMPTS, PoliteClient
from program.settings import Settings
from tests.arxiv_server import PDF, ArXivServer, Fault, Listed

ONE, TWO, OLD = Listed("1706.03762", "One", 7), Listed("2001.00002", "Two"), Listed("hep-th/9901001", "Old")
FOUR = Listed("2001.00004", "Four")


@pytest.fixture
def server() -> Iterator[ArXivServer]:
    with ArXivServer([ONE, TWO, OLD, FOUR]) as server:
        yield server


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "papers"


@pytest.fixture
def get(server, folder, tmp_path):
    def get(*papers: Listed | Entry, **options: Any) -> list[Download]:
        entries = [p if isinstance(p, Entry) else Entry(id=p.id, version=p.version, title=p.title) for p in papers]
        settings = Settings(arxiv_url=server.url, arxiv_pause=0, cache=tmp_path / "cache")
        client = PoliteClient(settings, sleep=lambda _: None, timeout=httpx.Timeout(0.2))
        return fetch(Manifest(size=9, papers=tuple(entries)), folder, settings, client=client, **options)

    return get


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_papers_come_in_the_version_that_the_manifest_names(server, folder, get):
    done = get(ONE, OLD)
    assert [(d.id, d.status, d.path.name) for d in done] == [
        ("1706.03762", "downloaded", "1706.03762.pdf"),
        ("hep-th/9901001", "downloaded", "hep-th_9901001.pdf"),
    ]
    assert server.asked == ["/pdf/1706.03762v7", "/pdf/hep-th/9901001v1"]
    assert all(d.path.read_bytes() == PDF for d in done)
    assert [found.name for found in find_files([folder])] == ["1706.03762.pdf", "hep-th_9901001.pdf"]


def test_what_is_there_is_not_asked_for_again(server, get):
    get(ONE)
    assert [d.status for d in get(ONE, TWO)] == ["present", "downloaded"]
    assert len(server.asked) == 2


def test_another_version_replaces_the_file(server, get):
    get(ONE)
    server.papers[ONE.id] = Listed(ONE.id, "One", 8, pdf=PDF.replace(b"0123", b"3210"))
    (done,) = get(server.papers[ONE.id])
    assert done.status == "downloaded"
    assert done.path.read_bytes() == server.papers[ONE.id].pdf
    assert get(Entry(id=ONE.id, title="any version"))[0].status == "present"


@pytest.mark.parametrize("fault", [Fault(cut=5000), Fault(status=503)], ids=["cut", "503"])
def test_a_download_that_breaks_off_goes_on_where_it_was(server, get, fault):
    server.faults.extend([Fault(cut=9000), fault])
    (done,) = get(ONE)
    assert done.path.read_bytes() == PDF
    assert "Range" not in server.headers[0]
    assert server.headers[1]["Range"] == "bytes=9000-"
    assert server.headers[2]["Range"] == f"bytes={9000 + (fault.cut or 0)}-"


def test_the_next_run_goes_on_where_the_last_one_was_killed(server, folder, get):
    server.faults.extend([Fault(cut=9000)] + [Fault(status=503)] * (ATTEMPTS - 1))
    (done,) = get(ONE)
    assert done.status == "failed"
    assert "later" in done.message
    assert find_files([folder]) == []  # nothing that is not complete
    assert get(ONE)[0].path.read_bytes() == PDF
    assert server.headers[-1]["Range"] == "bytes=9000-"
    assert names(folder) == [".downloads.json", "1706.03762.pdf"]


def test_a_file_that_changed_meanwhile_is_begun_anew(server, get):
    server.faults.append(Fault(cut=9000))
    changed = PDF.replace(b"0123", b"3210")

    def change(_done: int, _total: int, what: str) -> None:
        server.papers[ONE.id], server.etag = Listed(ONE.id, "One", 7, pdf=changed), '"second"'

    (done,) = get(ONE, on_progress=change)
    assert server.headers[-1]["Range"] == "bytes=9000-"
    assert done.path.read_bytes() == changed


def test_a_server_that_knows_no_ranges_begins_anew(server, get):
    server.ranges = False
    server.faults.append(Fault(cut=9000))
    assert get(ONE)[0].path.read_bytes() == PDF


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_without_a_state_to_compare_a_download_begins_anew(server, get, etag):
    server.etag = etag
    server.faults.append(Fault(cut=9000))
    assert get(ONE)[0].path.read_bytes() == PDF
    assert "Range" not in server.headers[-1]


@pytest.mark.parametrize("wrong", ["bytes 5-9/10", "bytes */10", "nonsense", ""])
def test_another_part_than_asked_for_is_not_joined(server, get, wrong):
    server.faults.extend([Fault(cut=9000), Fault(status=206, headers={"Content-Range": wrong}, body=b"other")])
    assert get(ONE)[0].path.read_bytes() == PDF


def test_a_part_of_the_rest_is_gone_on_from(server, get):
    part = Fault(status=206, headers={"Content-Range": f"bytes 9000-9999/{len(PDF)}"}, body=PDF[9000:10_000])
    server.faults.extend([Fault(cut=9000), part])
    assert get(ONE)[0].path.read_bytes() == PDF
    assert server.headers[-1]["Range"] == "bytes=10000-"


def test_all_arrived_but_the_run_was_killed_before_the_file_had_its_name(server, folder, get):
    folder.mkdir()
    (folder / ".1706.03762v7.part").write_bytes(PDF)
    (folder / ".1706.03762v7.tag").write_text(server.etag)
    assert get(ONE)[0].path.read_bytes() == PDF
    assert names(folder) == [".downloads.json", "1706.03762.pdf"]


@pytest.mark.parametrize("body", [b"<html>PDF unavailable</html>", b"", b"%!PS-Adobe-2.0"])
def test_what_is_no_pdf_is_refused_and_stops_nothing(server, folder, get, body):
    server.papers[ONE.id] = Listed(ONE.id, "One", 7, pdf=body)
    first, second = get(ONE, TWO)
    assert first.status == "failed"
    assert "no PDF" in first.message
    assert second.status == "downloaded"
    assert names(folder) == [".downloads.json", "2001.00002.pdf"]


def test_a_paper_without_pdf_is_told_and_stops_nothing(server, get):
    server.papers[ONE.id] = Listed(ONE.id, "One", 7, pdf=None)
    first, second, third = get(ONE, TWO, OLD)
    assert "404" in first.message
    assert (second.status, third.status) == ("downloaded", "downloaded")
    assert len(server.asked) == 3  # a 404 is not tried again


def test_a_server_that_is_down_is_not_asked_for_every_paper(server, get):
    server.faults.extend([Fault(status=503)] * 99)
    assert [d.status for d in get(ONE, TWO, OLD)] == ["failed", "failed", "not tried"]
    assert len(server.asked) == 2 * ATTEMPTS
    server.faults.clear()
    assert [d.status for d in get(ONE, TWO, OLD)] == ["downloaded"] * 3


def test_one_paper_that_the_server_cannot_make_stops_nothing(server, get):
    server.faults.extend([Fault(status=500)] * ATTEMPTS)
    assert [d.status for d in get(ONE, TWO, OLD)] == ["failed", "downloaded", "downloaded"]


def test_only_failures_in_a_row_count(server, get):
    server.faults.extend(([Fault(status=500)] * ATTEMPTS + [None]) * 2)
    assert [d.status for d in get(ONE, TWO, OLD, FOUR)] == ["failed", "downloaded", "failed", "downloaded"]


def test_a_file_without_end_is_given_up_and_not_kept(server, folder, get, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 20_000)
    (done,) = get(ONE)
    assert "larger than" in done.message
    assert names(folder) == []
    monkeypatch.setattr(download, "MOST_BYTES", 60_000)
    server.faults.append(Fault(cut=15_000))  # in two parts, each of them smaller
    assert "larger than" in get(ONE)[0].message
    assert names(folder) == []


def test_a_pdf_of_unknown_size_must_end_like_one(folder, get, tmp_path):
    whole, broken = tmp_path / "whole.pdf", tmp_path / "broken.pdf"
    whole.write_bytes(PDF)
    broken.write_bytes(PDF[:-100])
    assert download._is_pdf(whole, complete=False)
    assert not download._is_pdf(broken, complete=False)
    assert download._is_pdf(broken, complete=True)


@pytest.mark.parametrize("ledger", ["", "{", "[]", "null"])
def test_a_damaged_ledger_costs_a_download_and_nothing_else(server, folder, get, ledger):
    get(ONE)
    (folder / ".downloads.json").write_text(ledger)
    assert get(ONE)[0].status == "downloaded"
    assert json.loads((folder / ".downloads.json").read_text()) == {"1706.03762.pdf": 7}


def test_a_folder_that_cannot_be_written_is_a_typed_error(folder, get):
    folder.write_text("a file")
    with pytest.raises(FetchError, match="cannot be made"):
        get(ONE)


def test_progress_counts_papers_and_bytes(get):
    told: list[tuple[int, int, str]] = []
    get(ONE, TWO, on_progress=lambda *what: told.append(what))
    assert told[0][:2] == (0, 2)
    assert any(done == 1 and "2001.00002: 0.1 MB" in what for done, _, what in told)
    assert told[-1] == (2, 2, "2 of 2 papers are there")
