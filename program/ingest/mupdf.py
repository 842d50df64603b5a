"""PyMuPDF as all readers use it: loaded on first use, silent, and by one thread at a time."""

from __future__ import annotations

import logging
import threading
from functools import cache
from types import ModuleType

#: Hold it around every use: MuPDF is not made for threads.
MUPDF_LOCK = threading.RLock()


@cache
def mupdf() -> ModuleType:
    """The module `pymupdf`, which prints nothing: what it would print, it also raises."""
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.set_messages(pylogging_logger=logging.getLogger("pymupdf"), pylogging_level=logging.DEBUG)  # else to stdout
    return pymupdf  # type: ignore[no-any-return]
