"""Experiment 1: grid and exact evaluation."""

import numpy as np
import pytest

from suwr_experiments.__main__ import reproduce
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.pareto_experiment import ParetoExperiment
from suwr_experiments.pareto_results import (
    exact_fronts,
    lp_agrees,
    margin_below_front,
    suwr_grid,
)

EXPERIMENT = ParetoExperiment()


def test_full_grid():
    cells = EXPERIMENT.cells(RunConfig("pareto", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    weights = {c.params["sparsity_weight"] for c in cells if c.method == "SUWR"}
    assert weights == {0.3, 0.4, 0.5, 0.8, 1.5}
    default = [c for c in cells if c.method == "SUWR" and set(c.params) == {"sparsity_weight"}]
    assert len(default) == 5
    assert {0.45, 0.8} <= {round(c.params["sparsity_weight"], 6) for c in cells if c.method == "LP"}
    assert {c.params["n_steps"] for c in cells if c.method == "TabNet"} == {1, 2, 3}
    with pytest.raises(ValueError, match="'preset' parameter"):
        EXPERIMENT.cells(RunConfig("pareto", "wide"))


def test_training_rows_contain_every_row():
    task = EXPERIMENT.load(Cell("pareto", "toy4", "SUWR"))
    assert len(task.X) == 4 * len(task.X_test) == 64
    first, second = task.X_test[:, 0::2], task.X_test[:, 1::2]
    np.testing.assert_array_equal(task.y_test, (first * second).sum(axis=1) ** 2)


def test_oracle_of_the_toy_problem_is_on_the_front():
    task = EXPERIMENT.load(Cell("pareto", "toy4", "Oracle"))
    masks = task.oracle_params["relevant"](task.X_test)
    # A perfect prediction from three of four features on average.
    assert (masks.sum(axis=1).mean(), exact_fronts("toy4")["dp"].cost[-1]) == (3.0, 3.0)


@pytest.mark.slow
def test_from_cells_to_figure(tmp_path, capsys):
    config = RunConfig("pareto", "mini", tmp_path, ("L2X", "GlobalOptimum", "LP"))
    assert reproduce(config) == 0
    assert "front.svg" in capsys.readouterr().out
    table = (tmp_path / "table.md").read_text()
    assert "the two fronts are equal" in table
    assert "- L2X," in table
    assert len(EXPERIMENT.cells(config)) == 1 + 5 + 3


def test_margin_is_positive_below_the_front_only():
    front = exact_fronts("toy4")["dp"]

    def point(n_selected, loss):
        return {"metrics": {"n_selected": n_selected, "loss": loss}}

    assert margin_below_front(point(1.0, 0.0), front) > 0.5
    assert margin_below_front(point(3.0, 0.2), front) == pytest.approx(-0.2)
    assert not lp_agrees([], front)


def test_default_settings_have_a_table_of_their_own():
    def record(objective, **params):
        metrics = {
            "objective": objective, "dp_objective": 2.0, "loss": 0.5, "n_selected": 3.0,
            "sampled": {"objective": objective + 1.0},
        }  # fmt: skip
        return {
            "cell": {"method": "SUWR", "params": {"sparsity_weight": 0.5, **params}},
            "metrics": metrics,
        }

    records = [record(2.2, max_epochs=500), record(2.4)]
    assert [row[3:5] for row in suwr_grid(records).rows] == [["1.1000", "1.1000"]]
    assert [row[3:5] for row in suwr_grid(records, default=True).rows] == [["1.2000", "1.2000"]]
    assert suwr_grid(records[:1], default=True).rows == []
