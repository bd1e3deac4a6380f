"""Figures of the experiments: what they show, from plain numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.exact import pareto_front, toy_problem
from suwr_experiments.plots import (
    plot_control_steps,
    plot_curves,
    plot_policies,
    plot_trained_budgets,
    save_figure,
)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_policies_lie_where_they_are():
    front = pareto_front(toy_problem(4))
    ax = plot_policies([front], {"SUWR": [(1.0, 0.5), (3.0, 0.1)], "L2X": []})
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    np.testing.assert_allclose(drawn["SUWR"], [[1.0, 0.5], [3.0, 0.1]])
    assert "L2X" not in drawn


def test_never_comes_last():
    shares = np.array([[0.25, 0.75, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0]])
    ax = plot_control_steps({"Syn4": {"SUWR": shares}})
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "never"]
    assert [bar.get_height() for bar in ax.patches] == [75.0, 25.0]


def test_budget_has_the_two_references():
    ax = plot_trained_budgets({"with a price": {2: [2.0, 2.0], 4: [2.1, 2.3]}}, n_relevant=2)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["everything allowed", "2 features matter", "with a price"]


def test_curves_share_one_legend(tmp_path):
    panels = {f"Syn{i}": {"SUWR": [(2.0, 0.7, 0.0), (1.0, 0.6, 0.0)]} for i in range(1, 6)}
    ax = plot_curves(panels, ylabel="AUROC", chosen={"Syn1": 2.0}, limits={"Syn1": 0.8})
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), [1.0, 2.0])
    assert len(ax.figure.legends) == 1
    first, second = save_figure(ax, tmp_path, "curves")
    assert (first.suffix, second.suffix) == (".png", ".svg")
    assert not plt.get_fignums()


def test_a_long_legend_takes_more_rows():
    methods = {f"a method of many words, {i}": [(1.0, 0.6, 0.0)] for i in range(7)}
    figure = plot_curves({"Syn1": methods}, ylabel="AUROC").figure
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert len(legend.get_texts()) == 7
    plt.close(figure)
    # One that fits in no way is kept all the same.
    figure = plot_curves({"Syn1": {"a name " * 40: [(1.0, 0.6, 0.0)]}}, ylabel="AUROC").figure
    assert len(figure.legends) == 1
    plt.close(figure)


def test_the_same_figure_is_the_same_file(tmp_path):
    panels = {"Syn1": {"SUWR": [(2.0, 0.7, 0.0), (1.0, 0.6, 0.0)]}}
    once, again = (
        [path.read_bytes() for path in save_figure(plot_curves(panels, ylabel="y"), tmp_path, name)]
        for name in ("once", "again")
    )
    assert once == again
