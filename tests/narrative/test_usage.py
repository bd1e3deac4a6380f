"""Usage of units by many narratives, counted by hand."""

import pytest

from suwr import Explanation
from suwr.narrative.effects import measure_usage
from suwr.narrative.explanation import Narrative, Step


def make_row(*units):
    """A regression narrative in which the i-th step adds i to the prediction."""
    values = [(float(sum(range(i + 1))),) for i in range(len(units) + 1)]
    steps = tuple(
        Step({u: {u: 0} for u in unit.split("+")}, 0.5, *values[i : i + 2])
        for i, unit in enumerate(units)
    )
    return Narrative(0, values[0], 0.1, steps, "decision", None, 4)


def test_share_position_and_effect():
    rows = Explanation([make_row("a", "b"), make_row("b"), make_row("a+c"), make_row()])
    frame = rows.usage().set_index("unit")
    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame["share_of_rows"].tolist() == [0.5, 0.5, 0.25]
    assert frame["mean_position"].tolist() == [1.0, 1.5, 1.0]
    # a: 1 and half of 1; b: 2 and 1; c: half of 1.
    assert frame["mean_effect"].tolist() == pytest.approx([0.75, 1.5, 0.5])
    assert Explanation([make_row()]).usage().empty
    assert measure_usage([]) == []
