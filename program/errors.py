"""Everything that can go wrong, as types a caller can tell apart.

ProgramError                  the root; `hint` says what to do next
├── SettingsError             an environment setting has a value it cannot have
├── QuestionError             the question is empty or too long
├── NotConfigured             the route needs a tool (web, SQL) that no setting provides
├── LanguageModelError        the language model did not answer
│   └── OutputError           it answered outside its schema: this call failed, the next may not
├── WeightsError              model weights could not be found, fetched or verified
├── LibraryError              the index cannot be read or written
│   ├── LibraryMissing        there is no index at that place
│   ├── EncoderMismatch       the index was built with another encoder
│   ├── FormatMismatch        the index was written by another version of this program
│   ├── LibraryUnavailable    the server that keeps the index does not answer; later may go better
│   └── NotAllWritten         the server took only part of what was to be written
├── ArtifactError             a compiled program is damaged, incompatible or incomplete
├── ReadError                 a file gave no text
│   ├── UnsupportedFile       no reader for this kind of file
│   ├── EncryptedFile         a password is needed
│   ├── CorruptFile           the file is damaged
│   ├── TooLarge              the file, or what it unpacks to, is over a limit
│   ├── TimedOut              reading took too long and was stopped
│   └── NoText                a scan, or an empty file
├── ManifestError             a topics file or a manifest has a wrong or missing value
├── FetchError                a server did not give what was asked for
│   └── ServerUnavailable     it cannot be reached, or turns us away for now; later may go better
├── LabelError                a label file has a wrong or missing value
└── Cancelled                 the caller stopped waiting; nothing failed
"""

from __future__ import annotations


class ProgramError(Exception):
    """Root of all errors raised on purpose. `str(error)` is one sentence for people, `hint` the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message} {self.hint}".strip()


class SettingsError(ProgramError):
    """An environment setting has a value it cannot have."""


class QuestionError(ProgramError):
    """The question is empty or too long."""


class NotConfigured(ProgramError):
    """The chosen route needs a tool that no setting provides."""


class LanguageModelError(ProgramError):
    """The language model did not answer."""


class OutputError(LanguageModelError):
    """The language model answered outside its schema: this call failed, the next one may not."""


class WeightsError(ProgramError):
    """Model weights could not be found, fetched or verified."""


class LibraryError(ProgramError):
    """The index cannot be read or written."""


class LibraryMissing(LibraryError):
    """There is no index at that place."""


class EncoderMismatch(LibraryError):
    """The index was built with another encoder than the one asked to read it."""


class FormatMismatch(LibraryError):
    """The index was written by another version of this program."""


class LibraryUnavailable(LibraryError):
    """The server that keeps the index does not answer: later may go better."""


class NotAllWritten(LibraryError):
    """The server that keeps the index took only part of what was to be written, even when it was sent again."""


class ArtifactError(ProgramError):
    """A compiled program is damaged, incompatible or incomplete."""


class ReadError(ProgramError):
    """A file gave no text."""


class UnsupportedFile(ReadError):
    """There is no reader for this kind of file."""


class EncryptedFile(ReadError):
    """A password is needed to read the file."""


class CorruptFile(ReadError):
    """The file is damaged."""


class TooLarge(ReadError):
    """The file, or what it unpacks to, is larger than a limit allows."""


class TimedOut(ReadError):
    """Reading the file took too long and was stopped."""


class NoText(ReadError):
    """The file holds no text: a scan, or nothing."""


class ManifestError(ProgramError):
    """A topics file or a manifest has a wrong or missing value."""


class FetchError(ProgramError):
    """A server did not give what was asked for."""


class ServerUnavailable(FetchError):
    """A server cannot be reached, or turns us away for now: later may go better."""


class LabelError(ProgramError):
    """A label file has a wrong or missing value."""


class Cancelled(ProgramError):
    """The caller stopped waiting for the answer."""


def cause_of(error: BaseException, length: int = 200) -> str:
    """What a library's error says, as one line of at most `length` characters, to be quoted in a message of ours."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= length else line[: length - 3] + "..."
