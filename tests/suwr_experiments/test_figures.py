"""Figures of the experiments."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.exact import pareto_front, toy_problem
from suwr_experiments.figures import (
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


def test_policies_are_drawn_at_their_points():
    front = pareto_front(toy_problem(4))
    ax = plot_policies([front], {"SUWR": [(1.0, 0.5), (3.0, 0.1)], "L2X": []})
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    np.testing.assert_allclose(drawn["SUWR"], [[1.0, 0.5], [3.0, 0.1]])
    assert "L2X" not in drawn


def test_never_is_the_last_bar():
    shares = np.array([[0.25, 0.75, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0]])
    ax = plot_control_steps({"Syn4": {"SUWR": shares}})
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "never"]
    assert [bar.get_height() for bar in ax.patches] == [75.0, 25.0]


def test_budget_figure_has_two_references():
    ax = plot_trained_budgets({"λ > 0": {2: [2.0, 2.0], 4: [2.1, 2.3]}}, n_relevant=2)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["whole budget", "2 relevant features", "λ > 0"]


def test_curves_share_one_legend(tmp_path):
    panels = {f"Syn{i}": {"SUWR": [(2.0, 0.7, 0.0), (1.0, 0.6, 0.0)]} for i in range(1, 6)}
    ax = plot_curves(panels, ylabel="AUROC", chosen={"Syn1": 2.0}, limits={"Syn1": 0.8})
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), [1.0, 2.0])
    assert len(ax.figure.legends) == 1
    assert save_figure(ax, tmp_path, "curves") == tmp_path / "curves.svg"
    assert not plt.get_fignums()


def test_long_legend_takes_more_rows():
    methods = {f"a method with a long name, {i}": [(1.0, 0.6, 0.0)] for i in range(7)}
    figure = plot_curves({"Syn1": methods}, ylabel="AUROC").figure
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert len(legend.get_texts()) == 7
    plt.close(figure)
    # A legend that does not fit in any layout is kept.
    figure = plot_curves({"Syn1": {"a name " * 40: [(1.0, 0.6, 0.0)]}}, ylabel="AUROC").figure
    assert len(figure.legends) == 1
    plt.close(figure)


def test_figure_files_are_deterministic(tmp_path):
    panels = {"Syn1": {"SUWR": [(2.0, 0.7, 0.0), (1.0, 0.6, 0.0)]}}
    once, again = (
        save_figure(plot_curves(panels, ylabel="y"), tmp_path, name).read_bytes()
        for name in ("once", "again")
    )
    assert once == again
