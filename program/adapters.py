"""How a signature becomes a prompt: short, safe to fill with foreign text, and the same up to the question.

Every prompt is: the instructions (system), the demonstrations (user and assistant turns), the inputs (user). The first
two never change between calls of one predictor, so a server with a prefix cache reads them once; only the inputs are
read each time, and nothing is added to them.

Inputs are `name: value` lines. A value's further lines are indented, so that no text inside a value can start a line
with another field's name, and chat-template tokens (`<|im_end|>` and the like) are broken up, so that a document can
neither end its turn nor open another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import dspy
import json_repair
from dspy.adapters.utils import get_annotation_name, serialize_for_json
from dspy.utils.exceptions import AdapterParseError
from typing_extensions import override

from program.signatures import AnswerFromEvidence, ReplyWithoutEvidence

#: Tokens that mean something to a chat template when a server parses them out of plain text. (?:...) after the bracket:
#: ChatML and its kin, the full-width kind, Gemma's turns, Llama 2's sequence marks.
_TEMPLATE_TOKEN = re.compile(r"<(?=[|｜][^<>\n]{1,64}[|｜]>|(?:start|end)_of_turn>|/?s>)")

#: Outputs that are written as plain text.
_TEXT_OUTPUTS = {tuple(signature.output_fields) for signature in (AnswerFromEvidence, ReplyWithoutEvidence)}


def adapter_for(signature: type[dspy.Signature], *, schemas: bool = True) -> dspy.Adapter:
    """The adapter that `signature` is meant for: text for the synthesizer's, a JSON object for all others.

    schemas: whether the server takes a JSON schema; without one the format is only asked for in words.
    """
    return TextAdapter() if tuple(signature.output_fields) in _TEXT_OUTPUTS else CompactJSONAdapter(schemas=schemas)


class _ShortTurns:
    """What both adapters share: inputs as `name: value` lines, demonstrations as turns, nothing around them."""

    def format_user_message_content(
        self, signature: type[dspy.Signature], inputs: dict[str, Any], *_: Any, **__: Any
    ) -> str:
        return _fields(signature, inputs)

    def format_demos(self, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return _turns(self, signature, demos)


class CompactJSONAdapter(_ShortTurns, dspy.JSONAdapter):
    """DSPy's JSON adapter with a short prompt: the reply is one JSON object with the signature's output fields."""

    def __init__(self, *, schemas: bool = True) -> None:
        super().__init__(use_native_function_calling=False)
        self.schemas = schemas

    @override
    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        shape = ", ".join(f"{json.dumps(name)}: {_shape(field)}" for name, field in signature.output_fields.items())
        return f"{_task(signature)}\nReply with JSON: {{{shape}}}"

    @override
    def format_assistant_message_content(
        self, signature: type[dspy.Signature], outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        values = {name: outputs[name] for name in signature.output_fields if outputs.get(name) is not None}
        return _harmless(json.dumps(serialize_for_json(values), ensure_ascii=False))

    @override
    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        try:
            return dict(super().parse(signature, _near_misses_read(signature, completion)))
        except (RecursionError, TypeError, ValueError, KeyError, SyntaxError) as error:  # hostile or degenerate output
            raise AdapterParseError("CompactJSONAdapter", signature, completion[:2000], message=str(error)) from error

    @override
    def _prepare_response_format(self, lm: Any, lm_kwargs: dict[str, Any], signature: type[dspy.Signature]) -> None:
        if self.schemas:
            super()._prepare_response_format(lm, lm_kwargs, signature)


class TextAdapter(_ShortTurns, dspy.Adapter):
    """The reply is the text of the signature's one output field; nothing to parse, so it can be streamed."""

    @override
    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        (output,) = signature.output_fields.values()
        description = _description(output)
        return f"{_task(signature)}\nReply with {description}." if description else _task(signature)

    @override
    def format_assistant_message_content(
        self, signature: type[dspy.Signature], outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        (name,) = signature.output_fields
        return _harmless(str(outputs.get(name) or "").strip())

    @override
    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        (name,) = signature.output_fields
        return {name: completion.strip()}


def _task(signature: type[dspy.Signature]) -> str:
    """The instructions on one line, then what the inputs are where the signature says so."""
    described = [f"{name}: {_description(f)}" for name, f in signature.input_fields.items() if _description(f)]
    instructions = " ".join(signature.instructions.split())
    return f"{instructions}\nInput {'; '.join(described)}." if described else instructions


def _description(field: Any) -> str:
    """A field's description, or "" where DSPy filled in its placeholder `${name}`."""
    description = str((field.json_schema_extra or {}).get("desc") or "")
    return "" if description.startswith("${") else description


def _shape(field: Any) -> str:
    """How a JSON value of the field looks: its choices or its type, and its description."""
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        shape = " | ".join(json.dumps(choice) for choice in get_args(annotation))
    elif get_origin(annotation) is list and get_args(annotation) == (str,):
        shape = "[string, ...]"
    else:
        shape = {bool: "true | false", str: "string"}.get(annotation) or str(get_annotation_name(annotation))
    description = _description(field)
    return f"{shape} ({description})" if description else shape


def _near_misses_read(signature: type[dspy.Signature], completion: str) -> str:
    """The reply as the signature would have it: every choice in its spelling (`Multi-hop` is `multi_hop`), null for a
    text as an empty one (DSPy would read the word None), no lone surrogates (no tokenizer takes them)."""
    values = json_repair.loads(completion)
    if not isinstance(values, dict):
        return completion
    for name, field in signature.output_fields.items():
        if get_origin(field.annotation) is Literal and isinstance(values.get(name), str):
            spelt = {_spelling(choice): choice for choice in get_args(field.annotation)}
            values[name] = spelt.get(_spelling(values[name]), values[name])
        elif field.annotation is str and name in values and values[name] is None:
            values[name] = ""
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace").decode()


def _spelling(choice: str) -> str:
    return re.sub(r"[\W_]+", "", choice.casefold())


def _fields(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> str:
    """`name: value` for each input given, further lines of a value indented by one space."""
    given = ((name, inputs[name]) for name in signature.input_fields if inputs.get(name) is not None)
    return "\n".join(f"{name}: {_value(value)}" for name, value in given)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(serialize_for_json(value), ensure_ascii=False)
    # splitlines also breaks at the rarer line separators, so that none of them can open a field.
    return "\n ".join(_harmless(text).splitlines())


def _harmless(text: str) -> str:
    """`text` without lone surrogates (no server takes them) and without whole chat-template tokens."""
    return _TEMPLATE_TOKEN.sub("< ", text.encode("utf-8", "replace").decode())


def _turns(adapter: Any, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Demonstrations as turns. One that lacks some fields is shown with those it has; one without any input or
    without any output shows nothing and is left out."""
    turns = []
    for demo in demos:
        has_input = any(demo.get(name) is not None for name in signature.input_fields)
        has_output = any(demo.get(name) is not None for name in signature.output_fields)
        if has_input and has_output:
            turns.append({"role": "user", "content": adapter.format_user_message_content(signature, demo)})
            turns.append({"role": "assistant", "content": adapter.format_assistant_message_content(signature, demo)})
    return turns
