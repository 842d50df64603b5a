"""A language-model server for tests: OpenAI's chat-completions format on a loopback port, answering from a script.

    with OpenAIServer(lambda body: "an answer") as server:
        settings = Settings(lm="openai/test", lm_url=server.url)

A script sees each request's body and returns the text to answer, or a Failure. `SCHEMA` as the text answers with the
smallest object that fits the JSON schema the request came with. `server.requests` keeps every body.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCHEMA = "\0schema"

#: What every answer reports, except that completion tokens are the pieces written.
PROMPT_TOKENS, CACHED_TOKENS = 100, 60


@dataclass(frozen=True)
class Failure:
    """How a request fails: an HTTP status, or after `pieces` pieces by a closed connection, or with broken JSON."""

    status: int = 200
    message: str = "no"
    pieces: int = 0
    broken_json: bool = False


Script = Callable[[dict[str, Any]], "str | Failure"]


class OpenAIServer:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.pieces_sent = 0  # of streams, over all requests
        self.client_left = threading.Event()  # set when a client closes a stream before its end
        self.gate: threading.Semaphore | None = None  # when set, each streamed piece waits for one permit
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def smallest(schema: dict[str, Any]) -> Any:
    """The smallest value that fits a JSON schema of the kind that signatures give."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: smallest(part) for name, part in schema["properties"].items()}
        case "array":
            return [smallest(schema["items"])]
        case "boolean":
            return True
        case "integer" | "number":
            return 0
        case _:
            return "text"


def _handler(owner: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            owner.requests.append(body)
            owner.headers.append(dict(self.headers))
            reply = owner.script(body)
            failure = reply if isinstance(reply, Failure) else None
            text = "one two three four" if isinstance(reply, Failure) else reply
            if text == SCHEMA:
                text = json.dumps(smallest(body["response_format"]["json_schema"]["schema"]))
            if failure and failure.status != 200:
                self._send(json.dumps({"error": {"message": failure.message, "type": "test"}}), failure.status)
            elif failure and failure.broken_json:
                self._send('{"choices": [{"message"')
            elif body.get("stream"):
                self._stream(body, text, failure)
            elif failure:
                self.close_connection = True
            else:
                message = {"role": "assistant", "content": text}
                self._send(json.dumps(self._envelope(body, {"message": message}, len(_pieces(text)))))

        def _stream(self, body: dict[str, Any], text: str, failure: Failure | None) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            pieces = _pieces(text)
            try:
                for piece in pieces[: failure.pieces if failure else None]:
                    if owner.gate:
                        owner.gate.acquire()
                    self._event(self._envelope(body, {"delta": {"content": piece}}, None, finish=None))
                    owner.pieces_sent += 1
                if failure:
                    return
                self._event(self._envelope(body, {"delta": {}}, None))
                if (body.get("stream_options") or {}).get("include_usage"):
                    self._event({**self._envelope(body, {}, len(pieces)), "choices": []})
                self.wfile.write(b"data: [DONE]\n\n")
            except (BrokenPipeError, ConnectionResetError):
                owner.client_left.set()

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
            self.wfile.flush()

        def _envelope(
            self, body: dict[str, Any], choice: dict[str, Any], written: int | None, finish: str | None = "stop"
        ) -> dict[str, Any]:
            envelope: dict[str, Any] = {
                "id": "test",
                "object": "chat.completion.chunk" if body.get("stream") else "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "finish_reason": finish, **choice}],
            }
            if written is not None:
                envelope["usage"] = {
                    "prompt_tokens": PROMPT_TOKENS,
                    "completion_tokens": written,
                    "total_tokens": PROMPT_TOKENS + written,
                    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
                }
            return envelope

        def _send(self, text: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _pieces(text: str) -> list[str]:
    """The text cut after each space, as a stream's pieces."""
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]
