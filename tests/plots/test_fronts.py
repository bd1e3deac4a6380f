"""The figure of fronts."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.exact import FiniteProblem, cube, five_blocks, pareto_front
from suwr.plots import plot_fronts


@pytest.fixture
def fronts():
    problem, _ = five_blocks()
    return [pareto_front(problem, method) for method in ("lp", "dp", "global")]


def test_one_front_draws_its_corners_and_the_impossible_region(fronts):
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
    assert region.get_label() == "Impossible for SUWR"
    assert fronts[2].plot().collections[0].get_label() == "Impossible with one subset"


def test_grey_lies_below_the_lowest_front(fronts):
    _, ax = plt.subplots()
    assert plot_fronts(fronts, ax=ax) is ax
    region = ax.collections[0].get_paths()[0]
    assert region.contains_point((1.0, 0.40))
    assert not region.contains_point((1.0, 0.43))  # the leak-free front is at 0.4167
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [
        "Impossible without leakage",
        "All leak-free policies",
        "SUWR policies",
        "One subset for all rows",
    ]


def test_costs_rename_the_axis():
    front = pareto_front(FiniteProblem(cube(2), [0, 0, 0, 4], costs=[1, 5]))
    ax = front.plot(labels=["mine"])
    assert ax.get_xlabel() == "Expected cost"
    assert "mine" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_front_of_one_point_can_be_drawn():
    ax = pareto_front(FiniteProblem([[0], [1]], [3, 3])).plot()
    assert len(ax.get_lines()) == 1


def test_wrong_parameters(fronts):
    with pytest.raises(ValueError, match="must not be empty"):
        plot_fronts([])
    with pytest.raises(ValueError, match=r"must have 3 names. Got 1"):
        plot_fronts(fronts, labels=["a"])
