"""Labels from data, and percentages."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib import cbook

from suwr._utils.text import printable
from suwr.plots._style import plain, short_percent


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_labels_are_never_markup(text):
    shown = plain(text)
    assert not cbook.is_math_text(shown)
    # matplotlib draws the name on one line, truncated if it is too long.
    drawn = shown.replace(r"\$", "$").strip()
    flat = printable(" ".join(text.split()))
    assert drawn == flat or (drawn.endswith("…") and flat.startswith(drawn[:-1]))
    assert len(drawn) <= 36
    assert not shown.startswith("_")


@given(st.floats(0, 1))
@example(0.005)
@example(0.995)
def test_only_probabilities_within_a_millionth_are_0_or_100_percent(p):
    shown = short_percent(p)
    assert (shown == "0 %") == (p <= 1e-6)
    assert (shown == "100 %") == (p >= 1 - 1e-6)
    assert len(shown) <= 5
