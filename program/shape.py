"""The shape of a question as numbers: what its wording tells about its kind, whatever it is about.

Beside the embedding, which knows the topic, these let the router's head tell two questions in one from one question, a
greeting from a query, or a table question from a lookup. Fixed and cheap; only their weights are learned.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_FUNCTION_WORDS = tuple(
    word
    for line in (
        "what which who when where why how is are does did do can the a of in to for and or that this it they them our",
        "we us you your i me my with by from than not if there some any thing stuff so",
    )
    for word in line.split()
)
_OPENERS = ("what", "which", "who", "how", "why", "is", "does", "when", "where", "in")
_CUES = tuple(
    re.compile(pattern)
    for pattern in (
        # of the moment
        r"\b(today|now|current(?:ly)?|latest|newest|recent(?:ly)?|yesterday|tomorrow|tonight|next|last|lately|news|live"
        r"|still|yet|this (?:week|month|year|weekend|morning)|at (?:the|this) moment)\b",
        # over rows of a table
        r"\b(tables?|rows?|columns?|database|csv|spreadsheet|sheet|logs?|records?|count|sum|average|avg|mean|median"
        r"|total|max|min|per|each|group(?:ed)?|list|distinct)\b",
        # an overview
        r"\b(how (?:do|does|did|can|has|is|are)|why|explain|overview|describe|main|history|ideas?|approaches|ways"
        r"|basics|big picture|walk me|talk me|role|causes?)\b",
        # a quantity
        r"\b(how (?:many|much|long|large|big|far|deep|old)|number of|size)\b",
        # a comparison
        r"\b(compare|contrast|versus|vs|differ\w*|better|faster|older|larger|between|both|than)\b",
        # a second question
        r"\b(?:and|or)\b[^?.]*\b(?:what|which|who|when|where|how|is|does|did|are)\b|\?.+\?|[:,].+,",
        # one question inside another
        r"\b(?:of|by|in|at|on|with|behind|to) the \w+(?: \w+)? (?:of|that|which|who|whose|where|behind|in|by|with)\b"
        r"|\b(?:whose|that|which|who|where)\b",
        # spoken to the assistant
        r"\b(you|your|hi|hello|hey|thanks?|thank|bye|morning|evening)\b",
        # loosely worded
        r"\b(thing\w*|stuff|that|those|some\w*|kinda|like|whats|just|bit|ones?|they|it)\b",
    )
)
_SIGNS = re.compile(r"[+*/^=()\[\]{}_<>|%×÷]")
_SYMBOL = re.compile(r"[A-Z].*[A-Z0-9]|[_^=\[\]|/]")


def shape(question: str) -> NDArray[np.float32]:
    """Bounded counts over a question, float32 [SHAPE_SIZE]; all zero for an empty one."""
    lowered = question.casefold()
    words, tokens = re.findall(r"[^\W\d_]+(?:'[a-z]+)?", lowered), question.split()
    length, most = max(len(question), 1), max(len(tokens), 1)
    counts = [
        np.log1p(len(question)),
        np.log1p(len(words)),
        len(question) / most,
        sum(character.isdigit() for character in question) / length,
        np.log1p(len(re.findall(r"\d+(?:[.,]\d+)?", question))),
        min(question.count(","), 4),
        min(question.count("?"), 3),
        min(question.count(":"), 2),
        np.log1p(len(_SIGNS.findall(question))),
        np.log1p(sum(bool(_SYMBOL.search(token)) for token in tokens)),
        sum(token[:1].isupper() for token in tokens[1:]) / most,
        question[:1].isupper(),
        question.endswith("?"),
        not question.isascii(),
        *(min(words.count(word), 2) for word in _FUNCTION_WORDS),
        *(words[:1] == [word] for word in _OPENERS),
        *(min(len(cue.findall(lowered)), 3) for cue in _CUES),
    ]
    return np.array(counts, np.float32) if question else np.zeros(len(counts), np.float32)


SHAPE_SIZE = len(shape("?"))
