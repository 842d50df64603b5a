import pytest

from program.errors import NotConfigured, QuestionError
from program.tools import calculate, plain_arithmetic, query_sql, search_web


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("What is 17 * 23?", "17 * 23"),
        ("1,024 / 8 =", "1024 / 8"),
        ("compute (3 + 4) × 2", "(3 + 4) * 2"),
        ("what's 2^10?", "2**10"),
        ("5 − 3", "5 - 3"),
    ],
)
def test_plain_arithmetic_is_read_without_a_language_model(question: str, expression: str) -> None:
    assert plain_arithmetic(question) == expression


@pytest.mark.parametrize("question", ["What is BERT?", "15% of 80", "GPT-3", "1706.03762", "in 2017", "2017", ""])
def test_other_questions_are_not_arithmetic(question: str) -> None:
    assert plain_arithmetic(question) is None


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("17 * 23", "17 * 23 = 391"),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.3"),
        ("sqrt(2)", "sqrt(2) = 1.41421356237"),
        ("2^10", "2**10 = 1024"),
        ("1,000,000 / 4", "1000000 / 4 = 250000"),
        ("max(3,100,7)", "max(3,100,7) = 100"),
        ("12000000 ** 2", "12000000 ** 2 = 144000000000000"),
        ("4 ** 0.5", "4 ** 0.5 = 2"),
    ],
)
def test_calculation_cites_its_expression(expression: str, text: str) -> None:
    evidence = calculate(expression)
    assert (evidence.kind, evidence.text, evidence.chunk.text) == ("calculation", text, text)


@pytest.mark.parametrize(
    "expression",
    [
        "1/0",
        "9**9**9**9",
        "9**3999999",
        "(-1) ** 0.5",
        "__import__('os')",
        "'a' * 3",
        "open('x')",
        "",
        "1 +",
        "(1).__class__",
        "x",
        "log(-1)",
        "1 < 2",
    ],
)
def test_what_is_not_arithmetic_is_a_typed_error(expression: str) -> None:
    with pytest.raises(QuestionError):
        calculate(expression)


def test_web_and_sql_say_that_they_are_not_configured() -> None:
    for tool in (search_web, query_sql):
        with pytest.raises(NotConfigured, match="configured"):
            tool("latest news")
