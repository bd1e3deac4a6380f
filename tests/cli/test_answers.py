"""What somebody types, and what it means."""

import pytest

from suwr.cli.answers import Answer, UnseenError, describe, read_answer
from suwr.data.encoding import ColumnCode

NUMBER = ColumnCode(center=50.0, scale=10.0)
COLOUR = ColumnCode(categories=("Blue", "red"))
FLAG = ColumnCode(categories=(False, True))


@pytest.mark.parametrize(
    ("text", "code", "value"),
    [
        (" 4.5 ", NUMBER, 4.5),
        ("-3e1", NUMBER, -30.0),
        ("red", COLOUR, "red"),
        ("blue", COLOUR, "Blue"),
        ("true", FLAG, True),
        ("False", FLAG, False),
        ("Unknown", COLOUR, None),
        ("", NUMBER, None),
        ("?", NUMBER, None),
        ("missing", FLAG, None),
    ],
)
def test_values_and_unknowns(text, code, value):
    assert read_answer(text, code) == Answer(value)


def test_undo():
    assert read_answer("UNDO", NUMBER).undo
    assert not read_answer("red", COLOUR).undo


def test_the_words_of_the_data_come_before_our_own():
    code = ColumnCode(categories=("unknown", "undo", "a", "A"))
    assert read_answer("unknown", code) == Answer("unknown")
    assert read_answer("undo", code) == Answer("undo")
    assert read_answer(":unknown", code) == Answer(None)
    assert read_answer(":undo", code).undo
    assert read_answer("A", code) == Answer("A")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("x", NUMBER, "Please give a number. Got 'x'"),
        ("inf", NUMBER, "finite number"),
        ("nan", NUMBER, "finite number"),
        ("maybe", FLAG, "one of: False, True"),
    ],
)
def test_what_cannot_be_read(text, code, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_answer(text, code)
    assert not isinstance(caught.value, UnseenError)


def test_what_was_never_seen_is_questioned():
    with pytest.raises(UnseenError, match="far from what the model has learnt") as caught:
        read_answer("5000", NUMBER)
    assert caught.value.value == 5000
    with pytest.raises(UnseenError, match="one of: Blue, red") as caught:
        read_answer("green", COLOUR)
    assert caught.value.value == "green"


def test_descriptions():
    assert describe(NUMBER) == "a number, usually 40 to 60"
    assert describe(COLOUR) == "Blue, red"
    assert describe(ColumnCode(categories=tuple("abcdefghijklmno"))).endswith("k, l, … (3 more)")
