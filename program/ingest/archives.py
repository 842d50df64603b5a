"""Zip files from strangers: unlocked, and measured before any reader unpacks them.

Office documents and EPUB books are zip files of XML. What they unpack to, and how many elements a parser would build
of it, is known before a reader sees them, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator

import msoffcrypto
from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError

from program.errors import CorruptFile, EncryptedFile, TooLarge, cause_of

#: Bytes that all entries together may unpack to, and how many entries there may be.
MAX_UNPACKED = 512 << 20
MAX_ENTRIES = 20_000
#: Bytes of all XML together, and tags and attributes in it, each of which takes a parser some 150 bytes.
MAX_MARKUP = 128 << 20
MAX_MARKS = 5_000_000

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HEAD = 4096
_WRONG_NAME = "Its name may have the wrong extension."
_SAVE_ANEW = "Open it in the program that made it and save it anew."
_DIVIDE = "Divide it into smaller files."


def office_package(data: bytes, what: str, password: str | None) -> io.BytesIO:
    """An Office file (`what` names its kind) as a zip file that is safe to unpack; decrypted if it is encrypted.

    Raises CorruptFile, EncryptedFile, TooLarge.
    """
    if data.startswith(_OLE):
        data = _decrypted(data, what, password)
    with open_archive(data, what) as archive:
        for name, content in _markup(archive):
            # The formats forbid document type definitions, and only those can define entities that expand.
            if b"<!DOCTYPE" in content or b"<!ENTITY" in content or b"<\0!\0" in content or b"\0<\0!" in content:
                raise CorruptFile(f"The {what} is damaged: {name[:80]!r} defines its own XML entities.", _SAVE_ANEW)
    return io.BytesIO(data)


def open_archive(data: bytes, what: str) -> zipfile.ZipFile:
    """A zip file with unpacked size and XML within the limits. Raises CorruptFile, EncryptedFile, TooLarge."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise CorruptFile(f"This is no whole {what} ({cause_of(error)}).", _WRONG_NAME) from error
    entries = archive.infolist()
    # zipfile reads no more of an entry than its declared size, so that the declared sizes can be relied on.
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MAX_UNPACKED or len(entries) > MAX_ENTRIES:
        raise TooLarge(
            f"The {what} unpacks to {unpacked >> 20:,} MB in {len(entries):,} parts; the limits are "
            f"{MAX_UNPACKED >> 20} MB and {MAX_ENTRIES:,} parts.",
            _DIVIDE,
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise EncryptedFile(f"Parts of the {what} are encrypted.", "Save it without encryption.")
    try:
        size = marks = 0
        for _, content in _markup(archive):
            size += len(content)
            marks += content.count(b"<") + content.count(b"=")
            if size > MAX_MARKUP or marks > MAX_MARKS:
                raise TooLarge(
                    f"The {what} holds over {MAX_MARKUP >> 20} MB of XML or {MAX_MARKS:,} tags and attributes.", _DIVIDE
                )
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise CorruptFile(f"The {what} is damaged ({cause_of(error)}).", _SAVE_ANEW) from error
    return archive


def _markup(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every entry that could be XML, whatever its name says, at most MAX_MARKUP + 1 bytes of it."""
    for entry in archive.infolist():
        with archive.open(entry) as stream:
            head = stream.read(_HEAD)
            begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:4]
            if b"<" in begins or (head and not begins):
                yield entry.filename, head + stream.read(MAX_MARKUP + 1 - len(head))


def _decrypted(data: bytes, what: str, password: str | None) -> bytes:
    """The zip file inside an encrypted Office file, which is of the format that old Office files have, too."""
    try:
        file = msoffcrypto.OfficeFile(io.BytesIO(data))
        if file.format != "ooxml":
            raise FileFormatError("a file of the old Office formats")
        if not password:
            raise EncryptedFile(f"The {what} is encrypted and a password is needed.", "Give it with --password.")
        file.load_key(password=password, verify_password=True)
        plain = io.BytesIO()
        file.decrypt(plain)
    except EncryptedFile:
        raise
    except InvalidKeyError as error:
        raise EncryptedFile(
            f"The {what} is encrypted and the password is wrong.", "Give it with --password."
        ) from error
    except DecryptionError as error:
        raise EncryptedFile(
            f"The {what} cannot be decrypted ({cause_of(error)}).", "Save it without a password."
        ) from error
    except Exception as error:  # what is damaged inside shows as any type
        raise CorruptFile(f"This is no whole {what} ({cause_of(error)}).", f"{_WRONG_NAME} {_SAVE_ANEW}") from error
    return plain.getvalue()
