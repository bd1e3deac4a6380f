"""Sets of revealed units and the steps between them."""

import pytest

from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.plots import plot_transitions


def narrative(*orders):
    steps = [
        Step({name: {name: 1.0} for name in units}, 0.9, (0.5, 0.5), (0.1, 0.9)) for units in orders
    ]
    return Narrative(0, (0.5, 0.5), 0.2, tuple(steps), "decision", ("well", "ill"), 4)


def boxes(ax):
    """Position of each set by its label."""
    return {t.get_text(): t.get_position() for t in ax.texts if t.get_bbox_patch() is not None}


def test_rows_that_reveal_the_same_units_in_another_order_meet():
    rows = [narrative(["a"], ["b"], ["c"])] * 2 + [narrative(["a"], ["c"], ["b"]), narrative(["a"])]
    ax = plot_transitions(Explanation(rows))
    found = boxes(ax)
    assert set(found) == {"∅", "a\nstops: 25 %", "a\nb", "a\nc", "a\nb\nc\nstops: 75 %"}
    assert [y for _, y in found.values()].count(-2.0) == 2
    shares = [t.get_text() for t in ax.texts if t.get_bbox_patch() is None]
    assert sorted(shares) == ["100 %", "25 %", "25 %", "50 %", "50 %"]
    # The widths are linear in the shares.
    widths = {line.get_linewidth() for line in ax.get_lines()}
    assert sorted(w - 1.0 for w in widths) == pytest.approx([1.75, 3.5, 7.0])


def test_steps_of_several_units_and_rows_without_any():
    ax = plot_transitions(Explanation([narrative(["a", "b"], ["c"]), narrative()]))
    assert boxes(ax)["a\nb"][1] == -1.0
    assert "∅\nstops: 50 %" in boxes(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["step 0", "step 1", "step 2"]


def test_rare_sets_and_long_names():
    common = narrative(["$x$ " * 20])
    rare = narrative(*[[f"u{i}"] for i in range(9)])
    ax = plot_transitions(Explanation([common, common, rare]), max_sets=3)
    assert ax.get_xlabel() == "3 rarer sets are not drawn"
    assert any(label.startswith(r"\$x\$") and len(label) < 60 for label in boxes(ax))
    assert "u0\nu1\ngoes on: 100 %" in boxes(plot_transitions(Explanation([rare]), max_steps=2))
    every = plot_transitions(Explanation([rare]), max_steps=9)
    assert "u0\nu1\nu2\nu3\nu4\n4 others\nstops: 100 %" in boxes(every)


def test_empty_explanation():
    with pytest.raises(ValueError, match="must not be empty"):
        plot_transitions(Explanation([]))
