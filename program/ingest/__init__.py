"""Documents into the library: `ingest` reads files, chunks them, and writes them to an index."""

from program.ingest.batch import FileReport, ingest

__all__ = ["FileReport", "ingest"]
