"""Sentences and spans of texts."""

import pytest

from suwr.exceptions import TableError
from suwr.texts.splitting import make_splitter, read_texts, sentence_spans, word_spans


def parts(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One", ["One"]),
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ('He said "no." Then left...  Why?!', ['He said "no."', "Then left...", "Why?!"]),
        ("Version 3.5 of e.g. this. Done", ["Version 3.5 of e.g. this.", "Done"]),
        ("J. R. Smith vs. Dr. No. End.", ["J. R. Smith vs. Dr. No.", "End."]),
        ("A title\n\nA line\nand more.", ["A title", "A line\nand more."]),
        ("很好。真的！是吗？", ["很好。", "真的！", "是吗？"]),
        ("no space.after it", ["no space.after it"]),
    ],
)
def test_sentences(text, expected):
    assert parts(text, sentence_spans(text)) == expected


def test_a_sentence_does_not_depend_on_the_next_one():
    first = "It cost 5. "
    for following in ["Next one.", "next one", "7", '"quoted"', "…", ")", "\n\nNew", ""]:
        text = first + following
        assert parts(text, sentence_spans(text))[0] == "It cost 5."


def test_splitting_joined_sentences_restores_them():
    sentences = ["Dr. A went.", "Why?", "(It rained.)", "I paid 3.5 p. a day!", "End"]
    text = " ".join(sentences)
    assert parts(text, sentence_spans(text)) == sentences


def test_spans_of_words():
    text = "  a b\nc  d e "
    assert parts(text, word_spans(text, 2)) == ["a b", "c  d", "e"]
    assert word_spans(" ", 3) == []


def test_splitter_of_the_user():
    spans = make_splitter(lambda text: text.split(";"))
    assert parts("a; b ;;a", spans("a; b ;;a")) == ["a", "b", "a"]
    with pytest.raises(ValueError, match="'unit' parameter of TextUnits must be a function that"):
        make_splitter(lambda text: ["absent"])("text")
    with pytest.raises(ValueError, match="Got 3 instead"):
        make_splitter(lambda text: [3])("text")


def test_texts_are_read():
    assert read_texts(iter(["a", "b"])) == ["a", "b"]
    with pytest.raises(TableError, match="single str"):
        read_texts("a text")
    with pytest.raises(TableError, match="Got NoneType at position 1"):
        read_texts(["a", None])


SLOW = pytest.param(".'. ", marks=pytest.mark.slow)


@pytest.mark.parametrize("text", [".", " ", "\n ", '."', "\u3000\n\t", SLOW])
def test_time_is_linear_in_the_length_of_a_text(text):
    # Time that is quadratic would be hours.
    assert len(sentence_spans(text * 1_000_000 + "x")) <= 1_000_001
