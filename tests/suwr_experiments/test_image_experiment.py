"""Experiment 3: grid, curves and page."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from suwr_experiments import image_experiment
from suwr_experiments.__main__ import reproduce
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.image_experiment import BUDGETS, SHARES, ImageExperiment
from suwr_experiments.image_page import page
from suwr_experiments.image_results import curves, write_figures, write_tables
from suwr_experiments.images import ImageData
from suwr_experiments.records import RecordStore

EXPERIMENT = ImageExperiment()


def test_full_grid():
    cells = EXPERIMENT.cells(RunConfig("images", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    whole = [c for c in cells if c.method == "SUWR" and c.sparsity_share is None]
    widths = [(c.data, c.params.get("units_per_step", 1), c.params["max_steps"]) for c in whole]
    assert widths.count(("mnist", 1, 100)) == widths.count(("mnist", 5, 20)) == 3
    assert len([c for c in whole if c.params.get("network") == "conv"]) == 3
    assert len([c for c in cells if c.sparsity_share is not None]) == 2 * 3 * len(SHARES)
    budgets = [BUDGETS[data] for data in ("mnist", "fashion-mnist")]
    assert len([c for c in cells if c.method == "CAE"]) == 3 * sum(map(len, budgets))
    rules = [c.params["stopping"] for c in cells if c.method == "DIME"]
    assert rules.count("cost") == rules.count("confidence") == 2 * 3
    assert [c.data for c in cells if c.method == "GDFS" and "network" in c.params] == [
        "fashion-mnist"
    ] * 3
    by_patch = [c for c in cells if c.data == "mnist-patches"]
    assert {c.method for c in by_patch} == {"SUWR", "GDFS"}
    assert len([c for c in whole if c.params["hidden_size"] == 200]) == 2 * 3
    with pytest.raises(ValueError, match="'preset' parameter"):
        EXPERIMENT.cells(RunConfig("images", "wide"))


def record(method, seed, accuracy, units, after=None, **params):
    metrics = {"test": {"accuracy": accuracy, "n_units": units, "n_selected": 9 * units}}
    if after:
        metrics["accuracy_after"] = after
    cell = Cell("images", "fashion-mnist", method, seed, params=params).to_dict()
    return {"cell": cell, "status": "done", "fit_seconds": 3.0, "metrics": metrics}


def test_curves(tmp_path):
    records = [record("CAE", s, 0.8 + 0.02 * s, 5.0, n_units=5) for s in (0, 1)]
    records += [record("GDFS", 0, 0.9, 3.0, after=[0.1, 0.5, 0.7, 0.9], max_steps=3)]
    records += [record("AllFeatures", 0, 0.93, 784.0)]
    units, accuracy, spread = curves(records, "fashion-mnist")["CAE"][0]
    assert (units, accuracy) == (5.0, pytest.approx(81.0))
    assert spread == pytest.approx(2**0.5)
    # A model that spends its budget step by step gives the whole curve.
    assert curves(records, "fashion-mnist")["GDFS"][1] == (2.0, pytest.approx(70.0), 0.0)
    # A model for a range of λ gives the curve, at the points that every seed reaches.
    for seed in (0, 1):
        ranged = record("SUWR", seed, 0.9, 5.0, sparsity_weight=[0.001, 0.1])
        ranged["metrics"]["curve"] = [
            {"asked": k, "n_units": k + 0.1, "n_selected": 9.0 * k, "accuracy": 0.8 + 0.01 * k}
            for k in (3.0, 5.0, 8.0)[seed:]
        ]
        records.append(ranged)
    records.append(record("SUWR", 0, 0.91, 6.0))
    # Models with several units per step are not part of it; another network is another curve.
    for params in ({"units_per_step": 5}, {"network": "conv"}):
        other = record("SUWR", 0, 0.5, 5.0, sparsity_weight=[0.001, 0.1], **params)
        other["metrics"]["curve"] = [
            {"asked": 5.0, "n_units": 5.0, "n_selected": 9.0, "accuracy": 0.5}
        ]
        records.append(other)
    found = curves(records, "fashion-mnist")
    assert found["SUWR, convolutions"] == [(5.0, 50.0, 0.0)]
    points = found["SUWR"]
    assert [p[:2] for p in points] == [(5.1, pytest.approx(85.0)), (8.1, pytest.approx(88.0))]
    paths = write_tables(records, tmp_path) + write_figures(records, tmp_path)
    assert {"table.md", "curves.svg"} <= {path.name for path in paths}
    table = (tmp_path / "table.md").read_text()
    assert "| CAE | k = 5 | 5.00 ± 0.00 |" in table
    assert "λ = 0.001 … 0.1" in table


@pytest.mark.slow
def test_from_cells_to_figure(tmp_path, monkeypatch):
    # Small digits in the centre of an image: no download, and the same shape.
    digits = load_digits()
    X = np.pad(digits.images / 16, ((0, 0), (10, 10), (10, 10))).reshape(-1, 28 * 28)
    data = ImageData(
        X[:400].astype(np.float32), digits.target[:400], X[400:700].astype(np.float32),
        digits.target[400:700], (28, 28),
    )  # fmt: skip
    monkeypatch.setattr(image_experiment, "_images", lambda name: data)
    methods = ("AllFeatures", "CAE", "SUWR", "REALX", "GDFS", "DIME")
    config = RunConfig("images", "mini", tmp_path, methods=methods)
    assert reproduce(config) == 0
    assert (tmp_path / "curves.svg").exists()
    table = (tmp_path / "table.md").read_text()
    assert "| CAE | k = 5 | 5.00 |" in table
    assert "| DIME | T = 3, stops by cost |" in table
    found = curves(RecordStore(tmp_path).records(), "fashion-mnist")
    assert found["GDFS, confidence"][-1][0] <= 3.0 == found["GDFS"][-1][0]
    assert found["DIME, cost"][0][0] <= found["DIME, cost"][-1][0] <= 3.0
    assert "DIME" not in found
    # EVAL-X evaluates the masks of REAL-X: another accuracy at the same number of units.
    assert found["REAL-X, EVAL-X"][0][0] == found["REAL-X"][0][0]
    assert found["REAL-X, EVAL-X"] != found["REAL-X, EVAL-X of all sizes"]


def test_page():
    records = [record("GDFS", 0, 0.9, 10.0, after=[0.1] + [0.8] * 10, max_steps=10)]
    for r in records:
        r["cell"]["data"] = "mnist"
    assert "SUWR minus each baseline" not in page(records, "there")
    assert "*confidence*" not in page(records, "there")
    points = [{"setting": 0.5, "n_units": 4.0, "accuracy": 0.6}]
    records[0]["metrics"]["stopped"] = {"confidence": points}
    assert "*confidence*" in page(records, "there")
    assert curves(records, "mnist")["GDFS, confidence"] == [(4.0, 60.0, 0.0)]
    ranged = record("SUWR", 0, 0.9, 6.0, sparsity_weight=[0.001, 0.1])
    ranged["metrics"]["curve"] = [
        {"asked": 6, "n_units": 5.98, "n_selected": 50.0, "accuracy": 0.88},
        {"asked": 10, "n_units": 9.9, "n_selected": 80.0, "accuracy": 0.8801},
        {"asked": 11, "n_units": 10.01, "n_selected": 80.0, "accuracy": 0.9},
    ]
    single = record("SUWR", 0, 0.882, 5.98)
    single["cell"]["sparsity_share"] = 0.01
    baselines = [record("CAE", 0, 0.885, 8.0, n_units=8), record("AllFeatures", 0, 0.91, 784.0)]
    # Outside of SUWR's curve.
    baselines.append(record("REALX", 0, 0.895, 50.0))
    baselines[-1]["metrics"]["audit"] = {"verdict": "leaks"}
    text = page([*records, ranged, single, *baselines], "there")
    assert "![Accuracy against units](there/curves.svg)" in text
    assert "| 10 | 80.0 | 87.1 | -7.1 |" in text
    assert "reports leakage for REAL-X" in text
    assert "### Fashion-MNIST, 3×3 patches: 1 seed" in text
    # Interpolated at 10 units; beyond the last setting, its accuracy; before the first, none.
    assert "| SUWR | – | 89.82 | 90.00 | 90.00 | – |" in text
    assert "| CAE | – | 88.50 | 88.50 | 88.50 | – |" in text
    assert "| no selection | – | – | – | – | 91.00 |" in text
    assert "| Fashion-MNIST, 3×3 patches | SUWR | CAE | -0.49 at 8.0 | -0.49 at 8.0 |" in text
    assert "| SUWR | REAL-X |" not in text
    assert "| Fashion-MNIST, 3×3 patches | 0.01 | 6.0 | 88.20 | 88.00 | -0.20 | 1 |" in text
