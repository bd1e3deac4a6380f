"""The display of narratives in notebooks."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr._utils.text import printable
from suwr.narrative.explanation import Explanation, Narrative, Step

HOSTILE = "<script>alert('x')</script>\"&"


class Page(HTMLParser):
    """Collects the tags and the text of a page."""

    VOID = {"br"}

    def __init__(self, source):
        super().__init__()
        self.tags, self.open, self.text, self.widths = [], [], [], []
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.widths += [value for key, value in attrs if key == "style"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def make_narrative(row=3, name="age", classes=("ill", "well")):
    step = Step({name: {name: 71}}, 0.8, (0.4, 0.6), (0.9, 0.1))
    return Narrative(row, (0.4, 0.6), 0.25, (step,), "decision", classes, 5)


def test_narrative_is_a_table_of_steps():
    page = Page(make_narrative()._repr_html_())
    text = " ".join(page.text)
    for part in ("Row 3", "from 1 of 5 features", "age is 71", "ill 90 %", "25 %", "80 %"):
        assert part in text
    assert "nothing revealed" in text
    assert "Stopped by the stopping policy" in text
    assert page.tags.count("tr") == 3
    assert page.widths == [f"width:{p}%" for p in ("60.0", "40.0", "25.0", "90.0", "10.0", "80.0")]


def test_regression():
    step = Step({"size": {"height": 3, "width": None}}, 1.0, (1.0,), (2.5,))
    narrative = Narrative("r", (1.0,), 0.25, (step,), "budget", None, 4)
    text = " ".join(Page(narrative._repr_html_()).text)
    assert "size: height is 3, width is missing" in text
    assert "2.5" in text
    assert "maximum number of steps" in text


@pytest.mark.parametrize(
    "html", [lambda n: n._repr_html_(), lambda n: Explanation([n])._repr_html_()]
)
def test_data_is_escaped(html):
    page = Page(html(make_narrative(HOSTILE, HOSTILE, (HOSTILE, "<b>"))))
    assert "script" not in page.tags
    text = "".join(page.text)
    assert f"Row {HOSTILE}" in text
    assert f"{HOSTILE} is 71" in text
    assert "<b> 60 %" in text


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
@settings(max_examples=60)
def test_names_are_shown_as_text(label, name):
    page = Page(make_narrative(label, name, (label, name))._repr_html_())
    text = "".join(page.text)
    assert f"Row {printable(label)}: " in text
    assert f"{printable(name)} is 71" in text
    assert set(page.tags) <= {
        "div", "style", "p", "b", "span", "i", "table", "thead", "tbody", "tr", "th", "td", "br",
    }  # fmt: skip


def test_explanation_is_a_list_of_expandable_rows():
    page = Page(Explanation([make_narrative(i) for i in range(3)])._repr_html_())
    assert page.tags.count("details") == 3
    assert page.tags.count("summary") == 3
    assert "Explanation of 3 rows" in page.text
    many = " ".join(Page(Explanation([make_narrative(i) for i in range(50)])._repr_html_()).text)
    assert "… and 30 more rows." in many
    assert "Explanation of 0 rows" in Explanation([])._repr_html_()


def test_light_and_dark_theme():
    source = make_narrative()._repr_html_()
    assert "prefers-color-scheme:dark" in source
    assert "data-jp-theme-light=false" in source
    assert "http" not in source
