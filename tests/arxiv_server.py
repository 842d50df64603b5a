"""An arXiv for tests: its API's Atom feeds and its PDF files, on a loopback port, with faults on demand.

    with ArXivServer([Listed("1706.03762", "Attention Is All You Need")], {"all:attention": ["1706.03762"]}) as server:
        settings = Settings(arxiv_url=server.url, arxiv_pause=0, cache=tmp_path)

Queries are answered from the table that is given, never understood. Each request takes one of `server.faults`, while
there are any; None is no fault. `server.asked` keeps every request's path, `server.headers` its headers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

PDF = b"%PDF-1.5\n" + b"0123456789abcdef" * 4096 + b"\n%%EOF\n"
DAY = "2026-11-30T00:00:00-05:00"
NAMESPACES = (
    'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" '
    'xmlns:arxiv="http://arxiv.org/schemas/atom"'
)


@dataclass(frozen=True)
class Listed:
    """A paper that the server has. `drop` leaves elements out of its entry; `pdf` is what its PDF's address gives."""

    id: str
    title: str
    version: int = 1
    categories: Sequence[str] = ("cs.CL",)
    published: str = "2020-05-22T21:34:34Z"
    abstract: str = "We study a thing. It works well."
    authors: Sequence[str] = ("Ada Lovelace", "Alan Turing")
    comment: str = ""
    drop: Sequence[str] = ()
    pdf: bytes | None = PDF

    def entry(self) -> str:
        parts = {
            "id": f"<id>http://arxiv.org/abs/{escape(self.id)}v{self.version}</id>",
            "published": f"<published>{self.published}</published>",
            "title": f"<title>{escape(self.title)}</title>",
            "summary": f"<summary>\n  {escape(self.abstract)}\n</summary>",
            "author": "".join(f"<author><name>{escape(name)}</name></author>" for name in self.authors),
            "comment": f"<arxiv:comment>{escape(self.comment)}</arxiv:comment>" if self.comment else "",
            "category": f'<arxiv:primary_category term="{self.categories[0]}"/>'
            + "".join(f'<category term="{name}"/>' for name in self.categories),
        }
        return f"<entry>{''.join(text for name, text in parts.items() if name not in self.drop)}</entry>"


@dataclass(frozen=True)
class Fault:
    """What happens instead of an answer. `cut`: the connection closes after so many bytes of the true body; `hang`: no
    answer comes; otherwise `status`, `headers` and `body` are sent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    hang: bool = False


def feed(entries: Iterable[str], total: int, start: int = 0) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><feed {NAMESPACES}><title>arXiv Query</title><updated>{DAY}</updated>'
        f"<opensearch:totalResults>{total}</opensearch:totalResults>"
        f"<opensearch:startIndex>{start}</opensearch:startIndex>{''.join(entries)}</feed>"
    ).encode()


def error_feed(reason: str) -> bytes:
    entry = f"<entry><id>http://arxiv.org/api/errors#x</id><title>Error</title><summary>{reason}</summary></entry>"
    return feed([entry], 1)


class ArXivServer:
    def __init__(self, papers: Sequence[Listed], results: Mapping[str, Sequence[str]] | None = None) -> None:
        self.papers = {paper.id: paper for paper in papers}
        self.results = dict(results or {})
        self.faults: deque[Fault | None] = deque()
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.etag = '"first"'
        self.ranges = True  # whether a Range is honoured
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ArXivServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[int, bytes]:
        """(status, body) for a path without faults."""
        parts = urlsplit(path)
        if parts.path.startswith("/pdf/"):
            paper = self.papers.get(parts.path.removeprefix("/pdf/").rpartition("v")[0])
            return (200, paper.pdf) if paper and paper.pdf is not None else (404, b"<html>No PDF</html>")
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if ids := given.get("id_list"):
            found = [self.papers[id] for id in (part.partition("v")[0] for part in ids.split(",")) if id in self.papers]
            return 200, feed([paper.entry() for paper in found], len(found))
        if "(" in given["search_query"] and ")" not in given["search_query"]:
            return 400, error_feed("unbalanced parentheses")
        found = [self.papers[id] for id in self.results.get(given["search_query"], ())]
        start, most = int(given["start"]), int(given["max_results"])
        return 200, feed([paper.entry() for paper in found[start : start + most]], len(found), start)

    def wait(self) -> None:
        self._closing.wait(10)


def _handler(owner: ArXivServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            owner.asked.append(self.path)
            owner.headers.append(dict(self.headers))
            fault = owner.faults.popleft() if owner.faults else None
            if fault and fault.hang:
                owner.wait()
                self.close_connection = True
            elif fault and fault.cut is None:
                self._send(fault.status, fault.body, fault.headers)
            else:
                status, body = owner.answer(self.path)
                headers = {}
                if self.path.startswith("/pdf/") and status == 200:
                    headers["ETag"] = owner.etag
                    wanted = self.headers.get("Range", "").removeprefix("bytes=").rstrip("-")
                    if wanted and owner.ranges and self.headers.get("If-Range") == owner.etag:
                        begin = int(wanted)
                        if begin >= len(body):
                            status, body = 416, b""
                        else:
                            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
                            status, body = 206, body[begin:]
                self._send(status, body, headers, cut=fault.cut if fault else None)

        def _send(self, status: int, body: bytes, headers: Mapping[str, str], cut: int | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            if cut is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
