"""A language model that answers from a script, through DSPy's own engine interface: no server, no weights."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import dspy
from dspy.lm15 import (
    Message,
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    Usage,
)

from program import signatures

Reply = str | Mapping[str, Any] | Exception | Callable[[str], Any]

#: The first words of each signature's instructions tell which predictor is asking.
_OPENINGS = {
    name: " ".join(signature.instructions.split())[:40]
    for name, signature in vars(signatures).items()
    if isinstance(signature, type)
    and issubclass(signature, dspy.Signature)
    and signature.__module__ == signatures.__name__
}


class Script:
    """Replies by signature name. A reply is a text, a mapping (sent as JSON), an exception to raise, or a function of
    the user message that gives one of these. `asked` lists the signatures that asked, in order."""

    def __init__(self, **replies: Reply) -> None:
        self.replies = replies
        self.asked: list[str] = []

    def complete(self, request: Request) -> Response:
        system, user = str(request.system), str(request.messages[-1].text)
        name = next(name for name, opening in _OPENINGS.items() if opening in system)
        self.asked.append(name)
        reply: Any = self.replies.get(name, RuntimeError(f"the script has no reply for {name}"))
        if callable(reply) and not isinstance(reply, Exception):
            reply = reply(user)
        if isinstance(reply, Exception):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        words = len(system.split()) + len(user.split())
        usage = Usage(input_tokens=words, output_tokens=len(text.split()))
        return Response(None, request.model, Message.assistant(text), "stop", usage)

    def lm(self) -> dspy.LM:
        return dspy.LM("script/test", engine=self, async_engine=_Async(self), cache=False, num_retries=0)


class _Async:
    """The same script for DSPy's asynchronous calls; streams word by word."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(self, request: Request) -> Response:
        return self._script.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[StreamStartEvent | StreamDeltaEvent | StreamEndEvent]:
        response = self._script.complete(request)
        yield StreamStartEvent(model=request.model)
        for word in re.findall(r"\s*\S+", str(response.text)):
            yield StreamDeltaEvent(TextDelta(word))
        yield StreamEndEvent("stop", response.usage)
