"""Figures of many rows: flow, usage and lengths."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.plots import plot_flow, plot_lengths, plot_usage
from suwr.plots._style import BLUE, VERMILLION

EMPTY = Explanation([])


def boxes(ax):
    """(step, label, fraction of rows) of every box."""

    def place(x, y):
        return int(x), round(y, 6)

    labels = {place(*t.get_position()): re.split(r"\n|  ", t.get_text())[0] for t in ax.texts}
    return sorted(
        (int(p.get_x()), labels[place(p.get_x(), p.get_y() + p.get_height() / 2)], p.get_height())
        for p in ax.patches
        if isinstance(p, Rectangle)
    )


def test_flow_boxes_are_fractions_of_rows(explanation):
    ax = plot_flow(explanation)
    drawn = [(step, label, round(height, 6)) for step, label, height in boxes(ax)]
    assert drawn == [
        (0, "texture", 1.0),
        (1, "radius", 0.8),
        (1, "stop", 0.2),
        (2, "area", 0.4),
        (2, "stop", 0.4),
        (3, "stop", 0.4),
    ]
    assert [t.get_text() for t in ax.get_xticklabels()][:3] == ["step 1", "step 2", "step 3"]


def test_flow_streams_are_coloured_by_predicted_class(explanation):
    ax = plot_flow(explanation)
    streams = [
        (to_hex(c.get_facecolor()[0]).upper(), c.get_paths()[0].vertices) for c in ax.collections
    ]
    # texture → radius of both classes, texture → stop, radius → area and stop of both, area → stop
    assert len(streams) == 3 + 4 + 2
    assert {colour for colour, _ in streams} == {BLUE, VERMILLION}
    height = sum(
        np.ptp(corners[np.isclose(corners[:, 0], corners[:, 0].min()), 1])
        for _, corners in streams
        if corners[:, 0].min() < 1
    )
    assert height == pytest.approx(1.0)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["benign", "malignant"]


def test_flow_merges_rare_units_and_truncates_long_narratives():
    start = (0.5, 0.5)
    rows = []
    for number in range(12):
        units = ["first", f"unit {number}", "stop", "last"]
        steps = tuple(Step({u: {u: 0}}, 0.1, start, start) for u in units)
        rows.append(Narrative(number, start, 0.0, steps, "decision", ("a", "b"), 20))
    ax = plot_flow(Explanation(rows), max_units=3, max_steps=3)
    labels = [label for _, label, _ in boxes(ax)]
    assert labels.count("others") == 1
    # A unit named 'stop' is not the end of the narrative.
    assert labels.count("stop") == 1
    assert "last" not in labels


def test_flow_of_a_regressor_has_one_colour():
    step = Step({"a": {"a": 0}}, 1.0, (1.0,), (2.0,))
    ax = plot_flow(Explanation([Narrative(0, (1.0,), 0.0, (step,), "decision", None, 2)]))
    assert len(ax.collections) == 1
    assert ax.get_legend() is None


def cells(ax):
    """Map each unit to its percentages."""
    units = [t.get_text() for t in ax.get_yticklabels()]
    values = np.asarray(ax.images[0].get_array())
    return dict(zip(units, values.tolist(), strict=True))


def test_usage_by_predicted_class(explanation):
    ax = plot_usage(explanation)
    heads = [t.get_text() for t in ax.get_xticklabels()]
    assert heads == ["all\n5 rows", "benign\n3 rows", "malignant\n2 rows"]
    assert cells(ax) == {
        "texture": [100, 100, 100],
        "radius": [80, pytest.approx(200 / 3), 100],
        "area": [40, pytest.approx(100 / 3), 50],
    }
    assert [t.get_text() for t in ax.texts][:3] == ["100 %"] * 3


def test_usage_by_true_class_with_similar_names(explanation):
    y = ["a long name of one kind", "a long name of another", "a long name of one kind"]
    ax = plot_usage(explanation[:3], y, max_units=2)
    heads = [t.get_text() for t in ax.get_xticklabels()]
    assert [head.split("\n")[1] for head in heads] == ["3 rows", "1 row", "2 rows"]
    assert list(cells(ax)) == ["texture", "radius"]
    with pytest.raises(ValueError, match=r"must have 5 entries, one per row. Got 1"):
        plot_usage(explanation, ["a"])


def test_usage_without_any_revealed_feature():
    ax = plot_usage(Explanation([Narrative(0, (1.0,), 0.9, (), "decision", None, 2)]))
    assert [text.get_text() for text in ax.texts] == ["No row reveals a feature."]
    ax.figure.canvas.draw()


def test_lengths_by_reason_for_stopping(explanation):
    ax = plot_lengths(explanation)
    stopped, truncated = ax.containers
    assert [bar.get_height() for bar in stopped] == pytest.approx([0, 20, 40, 20])
    assert [(b.get_x() + b.get_width() / 2, b.get_height(), b.get_y()) for b in truncated] == [
        (pytest.approx(3), pytest.approx(20), pytest.approx(20))
    ]
    assert truncated[0].get_hatch()
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert "mean 2.2 steps" in names
    assert "no step or feature left" in names


@pytest.mark.parametrize("plot", [plot_flow, plot_usage, plot_lengths])
def test_empty_explanation_raises(plot):
    with pytest.raises(ValueError, match=r"'explanation' parameter of plot_\w+ must not be empty"):
        plot(EMPTY)


@pytest.mark.parametrize("plot", [plot_flow, plot_usage, plot_lengths])
def test_given_axes_are_used_and_show_is_not_called(plot, explanation, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("show was called"))
    _, ax = plt.subplots()
    assert plot(explanation, ax=ax) is ax
    assert len(plt.get_fignums()) == 1
    ax.figure.canvas.draw()
