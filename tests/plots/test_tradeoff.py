"""Figures of accuracy or loss against cost."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr import SUWRClassifier
from suwr.estimators.selection import SparsityPath
from suwr.exact import FiniteProblem, cube, five_blocks, pareto_front
from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.plots import budget_curve, plot_budget, plot_fronts, plot_path


@pytest.fixture
def fronts():
    problem, _ = five_blocks()
    return [pareto_front(problem, method) for method in ("lp", "dp", "global")]


def test_front_draws_its_corners_and_the_infeasible_region(fronts):
    ax = fronts[1].plot()
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_xdata()[:-1], fronts[1].cost)
    np.testing.assert_allclose(line.get_ydata()[:-1], fronts[1].loss)
    (region,) = ax.collections
    corners = region.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(0.75)
    red, green, blue, _ = region.get_facecolor()[0]
    assert red == green == blue
    assert ax.get_xlabel() == "Expected features revealed"
    assert region.get_label() == "Infeasible for SUWR"
    assert fronts[2].plot().collections[0].get_label() == "Infeasible with a fixed subset"


def test_infeasible_region_lies_below_the_lowest_front(fronts):
    _, ax = plt.subplots()
    assert plot_fronts(fronts, ax=ax) is ax
    region = ax.collections[0].get_paths()[0]
    assert region.contains_point((1.0, 0.40))
    assert not region.contains_point((1.0, 0.43))  # the leak-free front is at 0.4167
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [
        "Infeasible without leakage",
        "All leak-free policies",
        "SUWR policies",
        "Fixed subset",
    ]


def test_axis_is_labelled_cost_if_units_have_costs():
    front = pareto_front(FiniteProblem(cube(2), [0, 0, 0, 4], costs=[1, 5]))
    ax = front.plot(labels=["mine"])
    assert ax.get_xlabel() == "Expected cost"
    assert "mine" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_front_of_one_point():
    ax = pareto_front(FiniteProblem([[0], [1]], [3, 3])).plot()
    assert len(ax.get_lines()) == 1


def test_invalid_parameters_of_plot_fronts(fronts):
    with pytest.raises(ValueError, match="must not be empty"):
        plot_fronts([])
    with pytest.raises(ValueError, match=r"must have 3 entries.* Got 1"):
        plot_fronts(fronts, labels=["a"])


def test_budget_curve_truncates_narratives(explanation):
    y = ["malignant", "benign", "malignant", "malignant", "benign"]
    budgets, used, accuracy = budget_curve(explanation, y)
    assert budgets.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(used, [0, 1, 1.8, 2.2])
    np.testing.assert_allclose(accuracy, [0.4, 1.0, 1.0, 0.8])
    ax = plot_budget(explanation, y)
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(lines["revealed on average"].get_ydata(), used)
    np.testing.assert_allclose(lines["without early stopping"].get_ydata(), [0, 1, 2, 3])
    assert [t.get_text() for t in ax.texts] == ["40.0 %", "100.0 %", "100.0 %", "80.0 %"]
    with pytest.raises(ValueError, match="one class for each of the 5 rows"):
        budget_curve(explanation, y[:2])


def test_long_budget_curves_label_few_points():
    start = (0.5, 0.5)
    steps = tuple(Step({str(t): {str(t): 0}}, 0.5, start, (0.1, 0.9)) for t in range(20))
    narrative = Narrative(0, start, 0.0, steps, "decision", ("a", "b"), 20)
    numbers = plot_budget(Explanation([narrative]), ["b"]).texts
    assert len(numbers) == 7
    assert numbers[-1].xy == (20, 20)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8))
def test_budget_curve_is_monotone_in_features(rows):
    start = (0.5, 0.5)
    narratives = [
        Narrative(
            number, start, 0.0,
            tuple(Step({str(t): {str(t): 0}}, 0.5, start, (0.1, 0.9)) for t in range(length)),
            "decision", ("a", "b"), 9,
        )
        for number, (length, _) in enumerate(rows)
    ]  # fmt: skip
    budgets, used, accuracy = budget_curve(
        Explanation(narratives), ["b" if is_b else "a" for _, is_b in rows]
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


def test_several_paths_and_invalid_ones():
    _, ax = plt.subplots()
    curves = {"SUWR": ([1, 2], [0.5, 0.6]), "CAE": ([1, 2], [0.4, 0.5])}
    assert plot_path(curves, ax=ax, ylabel="Accuracy (%)") is ax
    assert len({line.get_marker() for line in ax.get_lines()}) == 2
    assert ax.get_ylabel() == "Accuracy (%)"
    with pytest.raises(ValueError, match="must not be empty"):
        plot_path({})
    with pytest.raises(ValueError, match=r"The costs and scores of 'a'"):
        plot_path({"a": ([1, 2], [0.5])})
    with pytest.raises(ValueError, match=r"'a' must be a pair"):
        plot_path({"a": ([1, 2], [0.5, 0.6], [0.1, 0.1], [1])})
    with pytest.raises(ValueError, match=r"The costs and scores of 'a'"):
        plot_path({"a": ([1, 2], [0.5, 0.6], [0.1])})


def test_intervals_of_a_curve():
    ax = plot_path({"a": ([2, 1], [0.5, 0.4], [0.1, 0.2])})
    ends = ax.collections[0].get_paths()[0].vertices
    assert {tuple(end) for end in ends.round(6)} == {(1, 0.2), (1, 0.6), (2, 0.4), (2, 0.6)}
    # Numbers of features are whole.
    assert all(tick == int(tick) for tick in ax.get_xticks())


def test_path_marks_the_sparsest_model_within_one_standard_error():
    score, cost = np.array([0.95, 0.93, 0.90]), np.array([8.0, 4.0, 1.0])
    path = SparsityPath(cost, score, cost, cost, ["a", "b", "c"], np.full(3, 0.03))
    ax = plot_path(path)
    marks = [line for line in ax.lines if line.get_label().startswith("sparsest")]
    assert [m.get_xydata().tolist() for m in marks] == [[[4.0, 0.93]]]
    (limit,) = ax.collections
    (segment,) = limit.get_segments()
    assert segment[:, 1] == pytest.approx([0.92, 0.92])
    # Two paths share one entry of the legend; without standard errors there is none.
    both = plot_path({"first": path, "second": path})
    texts = [t.get_text() for t in both.get_legend().get_texts()]
    assert texts.count("sparsest within one standard error") == 1
    plain = plot_path(SparsityPath(cost, score, cost, cost, ["a", "b", "c"]))
    assert len(plain.get_legend().get_texts()) == 1
    undefined = SparsityPath(cost, score, cost, cost, ["a", "b", "c"], np.full(3, np.nan))
    assert len(plot_path(undefined).get_legend().get_texts()) == 1


@pytest.mark.parametrize("path", [SUWRClassifier(), [[1.0], [0.5]], None])
def test_path_of_another_type(path):
    with pytest.raises(ValueError, match="'SUWR' must be a SparsityPath, such as"):
        plot_path(path)
