"""Benchmark of tables: grid, evaluation, and outputs from records."""

import numpy as np
import pytest

from suwr_experiments.__main__ import main
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import Task
from suwr_experiments.points import Point
from suwr_experiments.records import RecordStore
from suwr_experiments.runner import find_experiment, run, run_cell
from suwr_experiments.tabular_data import TABLES
from suwr_experiments.tabular_experiment import (
    METHODS,
    SHARES,
    calibration_error,
    point_scores,
)
from suwr_experiments.tabular_page import SEEN_SPLITS, findings, page, unseen_findings
from suwr_experiments.tabular_results import TableResults, write_figures, write_tables

EXPERIMENT = find_experiment("tables")


def test_full_grid_runs_split_by_split():
    cells = EXPERIMENT.cells(RunConfig("tables", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.data for cell in cells} == set(TABLES)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    # One table is complete before the next one begins.
    sequential = [c for c in cells if c.seed == 0 and c.method in ("SUWR", "GDFS", "DIME", "SEFA")]
    assert list(dict.fromkeys(c.data for c in sequential)) == list(TABLES)
    assert [c.data for c in sequential] == sorted(
        (c.data for c in sequential), key=list(TABLES).index
    )
    churn = [c for c in sequential if c.data == "churn"]
    assert len([c for c in churn if c.method == "SUWR"]) == len(SHARES)
    assert churn[0].sparsity_share == 0.01
    stops = [c.params["stopping"] for c in sequential if (c.data, c.method) == ("diabetes", "DIME")]
    assert stops == ["budget", "cost"]
    sefa = [c for c in cells if c.seed == 0 and c.method == "SEFA"]
    assert [c.params for c in sefa if c.data == "churn"] == [
        {"stopping": "budget", "max_steps": 10}, {"stopping": "confidence", "max_steps": 32},
    ]  # fmt: skip
    assert [c.params["stopping"] for c in sefa if c.data == "diabetes"] == ["budget"]


def test_parts_of_the_grid():
    config = RunConfig("tables", "full", methods=("GDFS",), datasets=("wine",), splits=(1, 4))
    assert [cell.seed for cell in EXPERIMENT.cells(config)] == [1, 4]
    assert "--splits 1,4" in config.command
    with pytest.raises(ValueError, match="'preset' parameter of TablesExperiment"):
        EXPERIMENT.cells(RunConfig("tables", "wide"))
    with pytest.raises(ValueError, match="'splits' parameter of RunConfig"):
        RunConfig("tables", splits=(-1,))


def test_training_and_validation_rows_are_given_to_fit():
    task = EXPERIMENT.load(Cell("tables", "wine", "SUWR", 2))
    assert (len(task.X), len(task.X_test), task.facts["n_fit"]) == (142, 36, 106)
    assert len(task.y) == 142


def test_the_path_of_a_split_is_recorded(tmp_path):
    config = RunConfig("tables", "quick", methods=("SUWR",), datasets=("wine",), splits=(0, 1))
    cells = EXPERIMENT.cells(config)
    outcomes = [run_cell(cell, tmp_path) for cell in cells[:2]]
    assert [error for _, _, error in outcomes] == [None, None]
    assert TableResults(RecordStore(tmp_path).records()).splits("wine", "SUWR") == [0]


def test_scores_of_a_point():
    y = np.array([0, 0, 1, 1])
    task = Task(None, y, None, y)
    p = np.array([0.1, 0.4, 0.35, 0.8])
    scores = point_scores(task, Point(1, np.arange(4.0), np.column_stack([1 - p, p])))
    assert scores["cost"] == 1.5
    assert scores["accuracy"] == 0.75
    assert scores["auroc"] == 0.75
    assert scores["loss"] == pytest.approx(-np.log([0.9, 0.6, 0.35, 0.8]).mean(), rel=1e-5)
    regression = Task(None, y, None, y, "Regressor")
    assert point_scores(regression, Point(1, np.zeros(4), p))["loss"] == pytest.approx(
        np.square(y - p).mean(), rel=1e-5
    )


def test_calibration_error_of_an_overconfident_prediction():
    y = np.array([0, 1] * 50)
    assert calibration_error(y, np.tile([0.9, 0.1], (100, 1))) == pytest.approx(0.4)


@pytest.mark.slow
def test_quick_preset(tmp_path, capsys):
    """All methods on a table of classes and one of values, from the command line to the page."""
    out = tmp_path / "benchmarks" / "tables"
    assert main(["tables", "--preset", "quick", "--out", str(out)]) == 0
    records = RecordStore(out).records()
    assert {r["cell"]["method"] for r in records} == set(METHODS)
    results = TableResults(records)
    assert results.tables == ["wine", "diabetes"]
    assert {"DIME, confidence", "SEFA, budget", "SEFA, confidence"} <= set(results.names)
    assert (out / "critical-difference.svg").exists()
    pages = tmp_path / "docs" / "results"
    missing = str(tmp_path / "nothing")
    folders = ["--pareto", missing, "--synthetic", missing, "--images", missing]
    assert main(["pages", *folders, "--tables", str(out), "--out", str(pages)]) == 0
    text = (pages / "tables.md").read_text()
    assert "Incomplete: only the splits 0 of 5 have been run." in text
    assert "Not run" not in text
    assert "![Loss against cost](../../benchmarks/tables/curves.svg)" in text
    assert "Friedman" in text


def test_no_cell_starts_after_the_time_limit(tmp_path, capsys):
    config = ["tables", "--preset", "quick", "--methods", "CART", "--out", str(tmp_path)]
    assert main([*config, "--max-seconds", "1e-9"]) == 1
    assert "holds no finished record" in capsys.readouterr().err
    store = run(RunConfig("tables", "quick", tmp_path, methods=("CART",), datasets=("wine",)))
    # The other table is missing, which is not a failure.
    assert main([*config, "--max-seconds", "1e-9", "--jobs", "2"]) == 0
    assert len(store.records()) == 1
    assert main([*config, "--max-seconds", "60"]) == 0
    assert len(store.records()) == 2


def test_records_of_another_machine_are_merged(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    run(RunConfig("tables", "quick", first, methods=("CART",), datasets=("wine",)))
    run(RunConfig("tables", "quick", second, methods=("CART",)))
    kept = RecordStore(first).records()[0]
    changed = {**RecordStore(second).read()[Cell.from_dict(kept["cell"]).key], "seconds": 1e9}
    RecordStore(second).write(changed)
    assert main(["merge", str(second), "--out", str(first)]) == 0
    merged = RecordStore(first).records()
    assert len(merged) == 2
    assert kept in merged


def record(data, method, split, cost, loss, name="path", setting=None, **params):
    constant = {"loss": 0.6, "auroc": 0.5, "accuracy": 0.7, "calibration_error": 0.0}
    curve = {"setting": setting or cost, "cost": cost, "loss": loss}
    if TABLES[data].n_classes:
        curve |= {key: [0.8] * len(cost) for key in ("auroc", "accuracy", "calibration_error")}
    share = setting[0] if method == "SUWR" else None
    return {
        "cell": Cell("tables", data, method, split, sparsity_share=share, params=params).to_dict(),
        "metrics": {"curves": {name: curve}, "constant": constant, "n_units": 19, "warnings": []},
    }


@pytest.fixture
def records():
    found = []
    for split in range(3):
        shift = 0.1 * split
        for data in ("churn", "german", "diabetes"):
            for share, cost, loss in ((0.01, 6.0, 0.2), (0.12, 2.0, 0.4)):
                found.append(record(data, "SUWR", split, [cost], [loss + shift], setting=[share]))
            gdfs = [0.6, 0.45 + shift + 0.001 * split, 0.25 + shift]
            found.append(record(data, "GDFS", split, [0.0, 2.0, 6.0], gdfs))
            found.append(record(data, "CART", split, [4.0], [0.3 + shift]))
        fixed = record("churn", "FixedSubset", split, [1.0, 10.0], [0.5, 0.1], "boosting")
        found.append(fixed)
    return found


def test_curves_are_interpolated_and_compared_by_split(records):
    results = TableResults(records)
    # From 0.4 at 2 to 0.2 at 6 features, then constant.
    assert results.means("churn", "SUWR")[0] == pytest.approx((4 * 0.3 + 4 * 0.2) / 8)
    difference = results.difference("churn", "SUWR", "GDFS")
    assert difference.n == 3
    assert difference.sign == -1
    assert results.ranking(("SUWR", "GDFS")).mean_rank == {"SUWR": 1.0, "GDFS": 2.0}


def test_a_curve_is_not_credited_with_costs_that_it_does_not_reach(records):
    results = TableResults(records)
    # CART has one point, 0.3 at 4 features: linear from the constant, 0.6 at no feature.
    assert results.curve("churn", "CART", 0).at([0, 2, 4, 9]).tolist() == pytest.approx(
        [0.6, 0.45, 0.3, 0.3]
    )


def test_incomplete_paths_of_a_partial_run_are_left_out(records):
    partial = [r for r in records if not (r["cell"]["sparsity_share"] == 0.12
                                          and r["cell"]["seed"] == 2)]  # fmt: skip
    results = TableResults(partial)
    assert results.splits("churn", "SUWR") == [0, 1]
    assert results.difference("churn", "SUWR", "GDFS").n == 2


def test_findings(records):
    measured = dict(findings(TableResults(records)))
    assert measured["Tables on which SUWR has a lower mean loss than GDFS and DIME"] == "3 of 3"
    assert measured["SUWR is behind by more than two standard errors"] == "nowhere"
    assert measured["Worse than the constant at the default λ"] == "nowhere"
    # 0.3 on average over the splits; a fixed subset of 6 features has 0.278.
    fixed = next(text for question, text in measured.items() if "fixed subset" in question)
    assert fixed == "churn (1.080)"


def test_findings_name_the_tables_that_are_lost(records):
    for r in records:
        if r["cell"]["data"] == "german" and r["cell"]["method"] == "GDFS":
            losses = r["metrics"]["curves"]["path"]["loss"]
            losses[:] = [loss - 0.2 for loss in losses]
    measured = dict(findings(TableResults(records)))
    wins = measured["Tables on which SUWR has a lower mean loss than GDFS and DIME"]
    assert wins == "2 of 3; not on german"
    assert measured["SUWR is behind by more than two standard errors"] == "GDFS: german"


def test_splits_of_earlier_runs_are_left_out_of_a_second_count(records):
    for r in records:
        # Splits 1, 2 and 3. GDFS is better on german in the splits 1 and 2 only.
        cell = r["cell"]
        cell["seed"] += 1
        if (cell["data"], cell["method"]) == ("german", "GDFS") and cell["seed"] in SEEN_SPLITS:
            losses = r["metrics"]["curves"]["path"]["loss"]
            losses[:] = [loss - 0.2 for loss in losses]
    assert (
        dict(findings(TableResults(records)))[
            "Tables on which SUWR has a lower mean loss than GDFS and DIME"
        ]
        == "2 of 3; not on german"
    )
    [(question, measured)] = unseen_findings(records)
    assert "without the splits 0, 1, 2" in question
    assert measured == "3 of 3"


def test_outputs(records, tmp_path):
    paths = write_tables(records, tmp_path) + write_figures(records, tmp_path)
    assert {path.name for path in paths} >= {"table.md", "curves.svg"}
    assert "| german | **0.350** |" in (tmp_path / "table.md").read_text()
    records[0]["metrics"]["warnings"] = ["The policy is no better than a constant."]
    text = page(records, "there")
    assert "- 1 ×: The policy is no better than a constant." in text
    assert "| churn | 6.0 | 0.300 | 0.600 | 0.278 | – |" in text
