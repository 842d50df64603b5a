"""Reader for mails: who wrote to whom and when, what they wrote, and the names of what was attached.

The text of earlier mails that a reply quotes is kept, in sections of its own, without the marks before its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime

from program.errors import CorruptFile, NoText, TooLarge
from program.ingest.blocks import Block, Heading, Paragraph, document_from_blocks
from program.ingest.documents import DocumentText, clean_text
from program.ingest.plain import decode
from program.ingest.web import decode_html, html_blocks, parse_html

#: Characters kept of one header field: a mail may go to thousands of people.
FIELD_LENGTH = 1000
#: Characters kept of an attachment's name.
NAME_LENGTH = 100
#: Mails attached to a mail are read to this depth.
MAX_DEPTH = 5
#: Parts of one mail.
MAX_PARTS = 1000
#: Plain text only stands in for the page ("Your program shows no HTML") if the page has so many times its characters.
STAND_IN = 4
#: Longest line, in characters, that can announce a quoted mail.
ANNOUNCEMENT = 250

_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_QUOTE_MARKS = re.compile(r"(?:> ?)+")


def read_mail(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """A mail; its title is its subject. Raises CorruptFile, NoText, TooLarge."""
    message = message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip())
    if not any(message.get(name) for name in ("From", "Date", "Subject", "Received")):
        raise CorruptFile("This is no mail.", "Its name may have the wrong extension.")
    date = _date(message)
    return document_from_blocks(
        _mail_blocks(message, 0),
        stem,
        title=_field(message, "Subject"),
        source=", ".join(filter(None, (_sender(message), _day(date)))),
        year=date.year if date else None,
    )


def _mail_blocks(message: Message, depth: int) -> Iterator[Block]:
    for name in _FIELDS:
        date = _date(message) if name == "Date" else None
        value = f"{date:%A}, {_day(date)}, {date:%H:%M %z}" if date else _field(message, name)
        if value:
            yield Paragraph(f"{name}: {value}")
    parts = _parts(message)
    names = [name for part in parts if (name := _name(part))]
    if names:
        yield Paragraph(f"{'Attachments' if len(names) > 1 else 'Attachment'}: {', '.join(names)}")
    yield from _body(parts, _sender(message) or "Mail")
    for part in parts:
        attached = part.get_payload() if part.get_content_type() == "message/rfc822" and depth < MAX_DEPTH else None
        for mail in attached if isinstance(attached, list) else ():
            assert isinstance(mail, Message)
            yield Heading(f"Attached mail: {_field(mail, 'Subject')}")
            yield from _mail_blocks(mail, depth + 1)


def _parts(message: Message) -> list[Message]:
    """The parts of a mail that hold something, but not those of the mails attached to it."""
    found: list[Message] = []
    waiting = [message]
    while waiting:
        part = waiting.pop()
        inside = part.get_payload() if part.get_content_maintype() == "multipart" else None
        if isinstance(inside, list):
            waiting += [piece for piece in reversed(inside) if isinstance(piece, Message)]
        else:
            found.append(part)
        if len(found) + len(waiting) > MAX_PARTS:
            raise TooLarge(f"The mail has over {MAX_PARTS} parts.", "Save its attachments as files of their own.")
    return found


def _body(parts: list[Message], sender: str) -> Iterator[Block]:
    """What was written: the plain text, or the page if there is no plain text to speak of."""
    written = [part for part in parts if part.get_content_disposition() != "attachment" and not _name(part)]
    plain = "\n\n".join(_text(part) for part in written if part.get_content_type() == "text/plain")
    page = [block for part in written if part.get_content_type() == "text/html" for block in _page_blocks(part)]
    shown = sum(len(block.text) for block in page if isinstance(block, Paragraph))
    yield from page if shown > STAND_IN * len(plain.strip()) else _plain_blocks(plain, sender)


def _page_blocks(part: Message) -> Iterator[Block]:
    try:
        yield from html_blocks(parse_html(_text(part)))
    except NoText:
        return


def _plain_blocks(text: str, sender: str) -> Iterator[Block]:
    """Paragraphs. The line that announces a quoted mail becomes the heading of what is quoted; so that nobody is held
    to another's words, a heading tells where the text goes back to an earlier writer."""
    headings = [sender]  # of each depth of quotation
    paragraphs = [(0, ""), *_paragraphs(text)]  # a mail may begin with a quotation
    for place, (depth, words) in enumerate(paragraphs):
        next_depth = paragraphs[place + 1][0] if place + 1 < len(paragraphs) else depth
        announces = next_depth > depth and words.endswith(":") and len(words) <= ANNOUNCEMENT
        if not announces:
            yield Paragraph(words)
        if next_depth > depth:
            headings = headings[: depth + 1]
            headings += [words.removesuffix(":") if announces else "Quoted mail"] * (next_depth - depth)
        if next_depth != depth:
            yield Heading(headings[next_depth])


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """(depth of quotation, text) of every paragraph: lines of one depth with no blank line between them."""
    depth = 0
    lines: list[str] = []
    for line in [*clean_text(text).split("\n"), ""]:
        marks = _QUOTE_MARKS.match(line)
        content = line[marks.end() :].strip() if marks else line.strip()
        level = marks.group().count(">") if marks else 0
        if lines and (not content or level != depth):
            yield depth, "\n".join(lines)
            lines = []
        if content:
            depth = level
            lines.append(content)


def _text(part: Message) -> str:
    """The text of a part in the encoding that it names, else in the one that it seems to be in."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset() or ""
    return decode_html(data) if part.get_content_type() == "text/html" and not charset else decode(data, charset)


def _name(part: Message) -> str:
    name = part.get_filename()
    return " ".join(clean_text(_decoded(name)).split())[:NAME_LENGTH] if name else ""


def _field(message: Message, name: str) -> str:
    """A field of the header as people read it; "" if it is missing."""
    raw = next((str(value) for key, value in message.raw_items() if key.casefold() == name.casefold()), "")
    return " ".join(clean_text(_decoded(raw[: 4 * FIELD_LENGTH])).split())[:FIELD_LENGTH]


def _decoded(value: str) -> str:
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return str(make_header(decode_header(value)))
    except (MessageError, LookupError, ValueError):
        return value


def _sender(message: Message) -> str:
    """Who wrote it: the name, or the address where there is none."""
    name = re.sub(r"<[^<>]*>|\"", "", _field(message, "From")).strip()
    return name or _field(message, "From")


def _date(message: Message) -> datetime | None:
    try:
        return parsedate_to_datetime(_field(message, "Date"))
    except (TypeError, ValueError, OverflowError):
        return None


def _day(date: datetime | None) -> str:
    return f"{date.day} {date:%B %Y}" if date else ""
