"""The trace's words, for people. The details beside them keep the names that programs read."""

from __future__ import annotations

from collections.abc import Sequence

from program.types import Claim, Route, Transform

KINDS = {
    "clear": "A clear question",
    "hyde": "A clear question, searched with a drafted answer",
    "vague": "A vague question, to be reworded",
    "compound": "Several questions in one, to be split",
    "broad": "A broad question, searched from several angles",
    "needs_context": "A question that needs background",
    "multi_hop": "A question whose parts build on each other",
    "no_retrieval": "Nothing to look up",
    "web": "A question for the web",
    "sql": "A question for a database",
    "math": "A calculation",
}
FIXES: dict[Transform, str] = {
    "vague": "Reworded",
    "compound": "Split into",
    "broad": "Angles",
    "needs_context": "With background",
    "hyde": "Drafted answer",
}
JUDGES = {
    "bars": "clear from the scores",
    "language_model": "judged by the language model",
    "fallback": "by the scores alone",
}


def decision(route: Route) -> str:
    """Who chose the route, and how sure the router was of it."""
    if route.decided_by == "fallback":
        return "chosen as the fallback"
    if route.decided_by == "head":
        return f"decided by the router ({route.confidence:.0%} sure)"
    odds = f" (the router gave it {route.confidence:.0%})" if route.confidence else ""
    return f"decided by the language model{odds}"


def checks(claims: Sequence[Claim], dropped: int) -> str:
    """What the support check made of an answer's sentences."""
    marked = sum(claim.status == "unsupported" for claim in claims)
    parts = [f"{counted(len(claims) - marked, 'sentence')} supported"]
    return ", ".join(
        parts + [f"{n} {what} as unsupported" for n, what in ((marked, "marked"), (dropped, "dropped")) if n]
    )


def counted(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"
