from program.words import content_words, coverage, names, numbers


def test_content_words_fold_case_number_words_and_endings() -> None:
    assert content_words("Eight Layers") == content_words("8 layer")
    assert content_words("the of and") == frozenset()


def test_cjk_text_gives_pairs_of_characters() -> None:
    assert content_words("注意力") == {"注意", "意力"}


def test_coverage_is_the_share_of_the_asked_words() -> None:
    assert coverage("attention heads", "It has 16 attention heads.") == 1.0
    assert coverage("attention heads", "It has heads.") == 0.5
    assert coverage("the", "the") == 0.0


def test_numbers_read_thousands_decimals_and_words() -> None:
    assert numbers("1,024 units, 3.50 points, eight heads") == {"1024", "3.5", "8"}
    assert numbers("GPT-3 and BERT2") == {"3"}
    assert numbers("one of them") == frozenset()


def test_names_leave_out_words_that_only_open_a_sentence() -> None:
    found = names("The model beats BERT-large. It was trained by Google.")
    assert {"bert", "larg", "googl"} <= found
    assert "the" not in found
    assert "it" not in found
