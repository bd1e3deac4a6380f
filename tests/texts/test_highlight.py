"""Texts with marks on what was read, as text, for terminals, in notebooks and as a page."""

import re
from dataclasses import replace

import pytest
from sklearn.feature_extraction.text import CountVectorizer

from helpers.strings import MARKUP
from suwr import Explanation, TextUnits
from suwr.narrative.explanation import ModelNarrative, Narrative, Step

TEXT = "We went on Monday. A waste of time! My brother slept."
WORDS = CountVectorizer(vocabulary=["brother", "time"])
BEFORE, AFTER = (0.5, 0.5), (0.9, 0.1)


def narrative(units, text, read, row=0):
    """A narrative that reads the given units, one per step."""
    values = units.transform([text])[0]
    steps = []
    for name in read:
        cells = {
            f"x{c}": None if values[c] != values[c] else values[c] for c in units.groups_[name]
        }
        steps.append(Step({name: cells}, 0.7, BEFORE, AFTER))
    ended = ("bad", "good"), len(units.groups_)
    return Narrative(row, BEFORE, 0.0, tuple(steps), "decision", *ended)


@pytest.fixture
def units():
    return TextUnits(max_units=6, vectorizer=WORDS).fit([TEXT])


@pytest.fixture
def read(units):
    return narrative(units, TEXT, ["sentence 3", "sentence 2", "sentence 5"])


def test_marks_in_the_order_of_reading(units, read):
    shown = units.highlight(read, TEXT)
    assert shown.text().splitlines() == [
        "bad 90 %, good 10 %, from 3 of 6 sentences.",
        "We went on Monday. [2: A waste of time!] [1: My brother slept.]",
        "Not in the text: sentence 5 (step 3).",
    ]
    assert str(shown) == shown.text()
    assert "".join(passage.text for passage in shown.passages) == TEXT
    assert [p.step for p in shown.passages] == [None, 2, None, 1]
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown.terminal())
    assert plain == shown.text()
    assert "\x1b[1;7m[2: A waste of time!]\x1b[0m" in shown.terminal()


def test_unread_text_can_be_left_out(units, read):
    shown = units.highlight(read, TEXT, unread=False)
    expected = " … [2: A waste of time!] [1: My brother slept.] …"
    assert shown.text().splitlines()[1] == expected
    assert "Monday" not in shown._repr_html_()
    nothing = units.highlight(narrative(units, TEXT, []), TEXT, unread=False)
    assert nothing.text() == "bad 50 %, good 50 %, from 0 of 6 sentences.\n …"


def test_words(units):
    words = TextUnits("word", vectorizer=CountVectorizer(ngram_range=(1, 2))).fit([TEXT, "dogs"])
    text = "Time! A waste of Time, dogs."
    found = narrative(words, text, ["dogs", "of time", "time", "monday"])
    shown = words.highlight(found, text)
    assert shown.text().splitlines()[1:] == [
        "[3: Time]! A waste [2: of Time], [1: dogs].", "Not in the text: monday (step 4).",
    ]  # fmt: skip
    listed = words.highlight(found, text, unread=False).text().splitlines()[1]
    assert listed == " … [1: dogs] … [2: of time] … [3: time] … "
    lines = words.narrate(Explanation([found]), [text])[0].text().splitlines()
    assert lines[1].startswith("1. count of “dogs” is 1. ")
    assert "count of “monday” is 0. " in lines[-3]


def test_narratives_show_sentences(units, read):
    explanation = units.narrate(Explanation([read]), [TEXT])
    lines = explanation[0].text().splitlines()
    assert lines[1].startswith("1. sentence 3 is “My brother slept.”. Speaks for bad: ")
    assert "sentence 5 is absent. " in lines[-3]
    assert Explanation.from_json(explanation.to_json()) == explanation
    # Narratives that show sentences can be highlighted, too.
    again = units.highlight(explanation[0], TEXT)
    assert again.passages == units.highlight(read, TEXT).passages


def test_comparison_with_the_model(units, read):
    shown = units.highlight(ModelNarrative.of(read, (0.95, 0.05)), TEXT)
    assert shown.text().splitlines()[-1] == (
        "The model says bad 95 %; from these features alone: bad 90 %."
    )
    assert "The model says bad 95 %" in shown._repr_html_()


def test_another_text_is_refused(units, read):
    for other in ["We went. The brother. A brother of time.", "We went on Monday. Time."]:
        with pytest.raises(ValueError, match="row 0 is not the one that was explained"):
            units.highlight(read, other)
    with pytest.raises(ValueError, match="is not the one"):
        units.highlight(units.narrate(Explanation([read]), [TEXT])[0], TEXT.upper())
    with pytest.raises(ValueError, match=r"one text per narrative, 1\. Got 2"):
        units.narrate(Explanation([read]), [TEXT, TEXT])
    strange = replace(read, steps=(Step({"x0": {"x0": 1.0}}, 0.5, BEFORE, AFTER),))
    with pytest.raises(ValueError, match="'x0' differs"):
        units.highlight(strange, TEXT)


def test_hostile_texts_are_escaped(units):
    for hostile in MARKUP:
        text = f"We went. {hostile} time. <img src=x onerror=alert(1)> brother."
        names = list(units.groups_)[: len(units.spans(text))]
        shown = units.highlight(narrative(units, text, names[:6]), text)
        assert "<img" not in shown._repr_html_()
        assert "<script" not in shown._repr_html_()
        assert "\x1b" not in shown.text()


def test_page(units, read, tmp_path):
    path = tmp_path / "texts.html"
    units.to_html(
        path, Explanation([read]), [TEXT], y=["good"], title="A & B", unread=False, note="<b>"
    )
    page = path.read_text()
    assert "<title>A &amp; B</title>" in page
    assert "Mean number of sentences read: 3.00 (1 text)" in page
    assert '<span class="truth wrong">true: good</span>' in page
    assert "<p>&lt;b&gt;</p>" in page
    assert "Monday" not in page
    assert "<script" not in page
    with pytest.raises(ValueError, match="'y' must have 1 values"):
        units.to_html(path, Explanation([read]), [TEXT], y=["bad", "good"])


def test_page_in_a_browser(units, read, browser, tmp_path):
    path = tmp_path / "texts.html"
    texts = [TEXT, TEXT.replace("Monday", "Monday" * 40)]
    units.to_html(path, Explanation([read, replace(read, row=1)]), texts)
    errors = []
    for width in (390, 1200):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: errors.append(message.text))
        page.goto(path.as_uri())
        assert page.locator("article").count() == 2
        marks = page.locator("article").first.locator("mark")
        assert marks.all_text_contents() == ["2A waste of time!", "1My brother slept."]
        # The style is allowed by the content security policy.
        colour = marks.first.evaluate("mark => getComputedStyle(mark).backgroundColor")
        assert colour == "rgb(255, 233, 168)"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
    assert errors == []
