"""The fields of a PDF form with their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from program.ingest.documents import clean_text, clean_title
from program.ingest.mupdf import mupdf

#: Most fields of one form that are read.
MOST_FIELDS = 5000

_INDEX = re.compile(r"\[\d+\]")


def form_values(document: Any) -> Iterator[tuple[int, str, str]]:
    """(page, name, value) of each field that holds something, in the order of the pages; pages counted from 1.

    The name is what a viewer shows when it points at the field, else the field's own. A ticked box reads "yes", a
    chosen radio button as it is called; empty fields, boxes without a tick, buttons and passwords are left out.
    """
    if not document.is_form_pdf:
        return
    fields = 0
    for number in range(document.page_count):
        for widget in document[number].widgets():
            fields += 1
            if fields > MOST_FIELDS:
                return
            value = _chosen(document, widget) or _value(widget)
            name = clean_title(widget.field_label or _INDEX.sub("", widget.field_name or "").split(".")[-1])
            if name and value:
                yield number + 1, name, value


def _chosen(document: Any, widget: Any) -> str:
    """What is chosen of a list, as the list shows it: the field's value is often a code for it."""
    _, indices = document.xref_get_key(widget.xref, "I")
    choices = widget.choice_values or []
    places = [int(index) for index in re.findall(r"\d+", indices) if int(index) < len(choices)]
    shown = [choices[place] if isinstance(choices[place], str) else choices[place][1] for place in places]
    return ", ".join(clean_title(str(choice)) for choice in shown)


def _value(widget: Any) -> str:
    pymupdf = mupdf()
    kind, value = widget.field_type, widget.field_value
    if kind == pymupdf.PDF_WIDGET_TYPE_CHECKBOX:
        return "yes" if value not in (None, False, "", "Off") and value == widget.on_state() else ""
    if kind == pymupdf.PDF_WIDGET_TYPE_RADIOBUTTON:
        return clean_title(str(value)) if value not in (None, "", "Off") and value == widget.on_state() else ""
    if kind == pymupdf.PDF_WIDGET_TYPE_BUTTON or widget.field_flags & pymupdf.PDF_TX_FIELD_IS_PASSWORD:
        return ""
    return " ".join(clean_text(str(value or "")).split())
