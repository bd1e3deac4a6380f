"""The figures of many rows: flow, usage, lengths, budgets and paths."""

import re
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from suwr.explanation import Explanation, Narrative, Step
from suwr.plots import (
    budget_curve,
    plot_budget,
    plot_flow,
    plot_lengths,
    plot_path,
    plot_usage,
)
from suwr.plots._style import BLUE, VERMILLION

EMPTY = Explanation([])


def boxes(ax):
    """(step, label, share of rows) of every box."""

    def place(x, y):
        return int(x), round(y, 6)

    labels = {place(*t.get_position()): re.split(r"\n|  ", t.get_text())[0] for t in ax.texts}
    return sorted(
        (int(p.get_x()), labels[place(p.get_x(), p.get_y() + p.get_height() / 2)], p.get_height())
        for p in ax.patches
        if isinstance(p, Rectangle)
    )


def test_flow_boxes_are_the_shares_of_rows(explanation):
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


def test_flow_streams_are_rows_by_predicted_class(explanation):
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


def test_flow_joins_rare_units_and_cuts_long_stories():
    start = (0.5, 0.5)
    rows = []
    for number in range(12):
        units = ["first", f"unit {number}", "stop", "last"]
        steps = tuple(Step({u: {u: 0}}, 0.1, start, start) for u in units)
        rows.append(Narrative(number, start, 0.0, steps, "decision", ("a", "b"), 20))
    ax = plot_flow(Explanation(rows), max_units=3, max_steps=3)
    labels = [label for _, label, _ in boxes(ax)]
    assert labels.count("others") == 1
    # A unit that is called 'stop' is not the end.
    assert labels.count("stop") == 1
    assert "last" not in labels


def test_flow_of_a_regression_has_one_colour():
    step = Step({"a": {"a": 0}}, 1.0, (1.0,), (2.0,))
    ax = plot_flow(Explanation([Narrative(0, (1.0,), 0.0, (step,), "decision", None, 2)]))
    assert len(ax.collections) == 1
    assert ax.get_legend() is None


def cells(ax):
    """Unit → the percentages in its line."""
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


def test_usage_by_true_class_and_groups_of_alike_names(explanation):
    y = ["a long name of one kind", "a long name of another", "a long name of one kind"]
    ax = plot_usage(explanation[:3], y, max_units=2)
    heads = [t.get_text() for t in ax.get_xticklabels()]
    assert [head.split("\n")[1] for head in heads] == ["3 rows", "1 rows", "2 rows"]
    assert list(cells(ax)) == ["texture", "radius"]
    with pytest.raises(ValueError, match=r"for each of the 5 rows. Got 1"):
        plot_usage(explanation, ["a"])


def test_lengths(explanation):
    ax = plot_lengths(explanation)
    chosen, forced = ax.containers
    assert [bar.get_height() for bar in chosen] == pytest.approx([0, 20, 40, 20])
    assert [(b.get_x() + b.get_width() / 2, b.get_height(), b.get_y()) for b in forced] == [
        (pytest.approx(3), pytest.approx(20), pytest.approx(20))
    ]
    assert forced[0].get_hatch()
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert "mean 2.2 steps" in names
    assert "it had to stop" in names


def test_budgets_cut_the_stories(explanation):
    y = ["malignant", "benign", "malignant", "malignant", "benign"]
    budgets, used, accuracy = budget_curve(explanation, y)
    assert budgets.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(used, [0, 1, 1.8, 2.2])
    np.testing.assert_allclose(accuracy, [0.4, 1.0, 1.0, 0.8])
    ax = plot_budget(explanation, y)
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(lines["used on average"].get_ydata(), used)
    np.testing.assert_allclose(lines["the whole budget"].get_ydata(), [0, 1, 2, 3])
    assert [t.get_text() for t in ax.texts] == ["40.0 %", "100.0 %", "100.0 %", "80.0 %"]
    with pytest.raises(ValueError, match="one class for each of the 5 rows"):
        budget_curve(explanation, y[:2])


def test_long_budgets_have_few_numbers():
    start = (0.5, 0.5)
    steps = tuple(Step({str(t): {str(t): 0}}, 0.5, start, (0.1, 0.9)) for t in range(20))
    story = Narrative(0, start, 0.0, steps, "decision", ("a", "b"), 20)
    numbers = plot_budget(Explanation([story]), ["b"]).texts
    assert len(numbers) == 7
    assert numbers[-1].xy == (20, 20)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8))
def test_budgets_only_add(rows):
    start = (0.5, 0.5)
    stories = [
        Narrative(
            number, start, 0.0,
            tuple(Step({str(t): {str(t): 0}}, 0.5, start, (0.1, 0.9)) for t in range(length)),
            "decision", ("a", "b"), 9,
        )
        for number, (length, _) in enumerate(rows)
    ]  # fmt: skip
    budgets, used, accuracy = budget_curve(
        Explanation(stories), ["b" if is_b else "a" for _, is_b in rows]
    )
    assert (np.diff(used) >= 0).all()
    assert (used <= budgets + 1e-12).all()
    assert used[-1] == pytest.approx(np.mean([length for length, _ in rows]))
    assert ((accuracy >= 0) & (accuracy <= 1)).all()


def test_path_with_exact_and_published_points():
    path = SimpleNamespace(cost=np.array([4.0, 1.0]), score=np.array([0.9, 0.7]))
    ax = plot_path(
        path, {"exact": ([1, 2, 3], [0.8, 0.9, 1.0]), "published": (4, 0.85), "all": 0.95}
    )
    ours, exact, published, everything = ax.get_lines()
    np.testing.assert_allclose(ours.get_xydata(), [[1, 0.7], [4, 0.9]])
    np.testing.assert_allclose(exact.get_ydata(), [0.8, 0.9, 1.0])
    np.testing.assert_allclose(published.get_xydata(), [[4, 0.85]])
    np.testing.assert_allclose(everything.get_ydata(), [0.95, 0.95])
    assert len({line.get_linestyle() for line in (ours, exact, published, everything)}) == 4
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert names == ["SUWR", "exact", "published", "all"]


def test_several_paths():
    _, ax = plt.subplots()
    curves = {"SUWR": ([1, 2], [0.5, 0.6]), "CAE": ([1, 2], [0.4, 0.5])}
    assert plot_path(curves, ax=ax, ylabel="Accuracy (%)") is ax
    assert len({line.get_marker() for line in ax.get_lines()}) == 2
    assert ax.get_ylabel() == "Accuracy (%)"
    with pytest.raises(ValueError, match="must not be empty"):
        plot_path({})
    with pytest.raises(ValueError, match=r"'a' must have as many scores"):
        plot_path({"a": ([1, 2], [0.5])})
    with pytest.raises(ValueError, match=r"'a' must be a pair"):
        plot_path({"a": ([1, 2], [0.5], [1])})


@pytest.mark.parametrize("plot", [plot_flow, plot_usage, plot_lengths])
def test_nothing_to_draw(plot):
    with pytest.raises(ValueError, match=r"'explanation' parameter of plot_\w+ must not be empty"):
        plot(EMPTY)


@pytest.mark.parametrize("plot", [plot_flow, plot_usage, plot_lengths])
def test_given_axes_are_used_and_nothing_is_shown(plot, explanation, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("show was called"))
    _, ax = plt.subplots()
    assert plot(explanation, ax=ax) is ax
    assert len(plt.get_fignums()) == 1
    ax.figure.canvas.draw()
