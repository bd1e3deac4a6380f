"""Experiment 1: exact measurements."""

import numpy as np
import pytest

from suwr_experiments.cells import Cell
from suwr_experiments.options import Options
from suwr_experiments.pareto_results import fronts_of, lp_agrees, under_front
from suwr_experiments.registry import find_experiment
from suwr_experiments.reproduce import reproduce

EXPERIMENT = find_experiment("pareto")


def test_the_full_grid():
    cells = EXPERIMENT.cells(Options("pareto", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    weights = {c.params["sparsity_weight"] for c in cells if c.method == "SUWR"}
    assert weights == {0.3, 0.4, 0.5, 0.8, 1.5}
    assert {0.45, 0.8} <= {round(c.params["sparsity_weight"], 6) for c in cells if c.method == "LP"}
    assert {c.params["n_steps"] for c in cells if c.method == "TabNet"} == {1, 2, 3}
    with pytest.raises(ValueError, match="'preset' parameter"):
        EXPERIMENT.cells(Options("pareto", "wide"))


def test_every_row_is_trained_on():
    task = EXPERIMENT.load(Cell("pareto", "toy4", "SUWR"))
    assert len(task.X) == 4 * len(task.X_test) == 64
    first, second = task.X_test[:, 0::2], task.X_test[:, 1::2]
    np.testing.assert_array_equal(task.y_test, (first * second).sum(axis=1) ** 2)


def test_the_oracle_of_the_toy_problem_is_on_the_front():
    task = EXPERIMENT.load(Cell("pareto", "toy4", "Oracle"))
    masks = task.told["relevant"](task.X_test)
    # The whole answer from three of four features on average.
    assert (masks.sum(axis=1).mean(), fronts_of("toy4")["dp"].cost[-1]) == (3.0, 3.0)


def test_from_cells_to_figure(tmp_path, capsys):
    options = Options("pareto", "mini", tmp_path, ("L2X", "GlobalOptimum", "LP"))
    assert reproduce(options)
    assert "front.svg" in capsys.readouterr().out
    page = (tmp_path / "table.md").read_text()
    assert "the two fronts are one" in page
    assert "- L2X," in page
    records = find_experiment("pareto").cells(options)
    assert len(records) == 1 + 5 + 3


def test_under_the_front_and_above_it():
    front = fronts_of("toy4")["dp"]

    def point(n_selected, loss):
        return {"metrics": {"n_selected": n_selected, "loss": loss}}

    assert under_front(point(1.0, 0.0), front) > 0.5
    assert under_front(point(3.0, 0.2), front) == pytest.approx(-0.2)
    assert not lp_agrees([], front)
