"""Syn1 to Syn6 on fresh draws."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from suwr_experiments.__main__ import main
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.draws import page
from suwr_experiments.records import RecordStore
from suwr_experiments.runner import find_experiment
from suwr_experiments.synthetic import synthetic
from suwr_experiments.synthetic_experiment import METHODS, SHARES

EXPERIMENT = find_experiment("draws")


def test_every_method_on_ten_draws():
    cells = EXPERIMENT.cells(RunConfig("draws", "full"))
    assert len(cells) == 10 * 6 * (len(METHODS) - 1 + len(SHARES))
    assert len({cell.key for cell in cells}) == len(cells)
    suwr = [cell for cell in cells if cell.method == "SUWR"]
    # The default settings of the library.
    assert all(cell.params == {} for cell in suwr)
    assert suwr[0].sparsity_share == 0.01
    with pytest.raises(ValueError, match="'preset' parameter of DrawsExperiment"):
        EXPERIMENT.cells(RunConfig("draws", "quick"))


def test_draws_differ_in_training_and_test_rows():
    tasks = [EXPERIMENT.load(Cell("draws", "Syn4", "SUWR", draw, n_train=50)) for draw in (0, 3)]
    for task, draw in zip(tasks, (0, 3), strict=True):
        np.testing.assert_array_equal(task.X, synthetic(4, 50, 20_000 + draw).X)
        np.testing.assert_array_equal(task.y_test, synthetic(4, 10_000, 30_000 + draw).y)
    first = find_experiment("synthetic").load(Cell("synthetic", "Syn4", "SUWR", 3, n_train=50))
    np.testing.assert_array_equal(first.X, synthetic(4, 50, 0).X)


def test_from_the_command_to_the_page(tmp_path, capsys):
    out = tmp_path / "draws"
    command = ["draws", "--preset", "mini", "--methods", "SUWR,AllFeatures", "--seeds", "2"]
    assert main([*command, "--out", str(out)]) == 0
    records = RecordStore(out).records()
    assert len(records) == 4
    test = synthetic(4, 10_000, 30_001)
    limit = roc_auc_score(test.y, test.probability)
    assert [r["metrics"]["limit"] for r in records if r["cell"]["seed"] == 1] == [limit] * 2
    text = page(records, "there")
    assert "| SUWR, λ = 0.01 H |" in text
    assert "| no selection |" in text
    assert "reached |" in text
    found = np.mean([r["metrics"]["test"]["auroc"] for r in records[2:]])
    assert f"{found:.4f}" in text
