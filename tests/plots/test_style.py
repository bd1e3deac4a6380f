"""Names from data become text, and nothing but text."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib import cbook

from suwr.plots._style import plain, share


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_no_name_is_ever_a_formula(text):
    shown = plain(text)
    assert not cbook.is_math_text(shown)
    # What matplotlib writes on the page is the name, on one line, cut where it is too long.
    drawn = shown.replace(r"\$", "$").strip()
    flat = " ".join(text.split())
    assert drawn == flat or (drawn.endswith("…") and flat.startswith(drawn[:-1]))
    assert len(drawn) <= 36
    assert not shown.startswith("_")


@given(st.floats(0, 1))
@example(0.005)
@example(0.995)
def test_shares_claim_no_false_certainty(p):
    shown = share(p)
    assert (shown == "0 %") == (p == 0)
    assert (shown == "100 %") == (p == 1)
    assert len(shown) <= 5
