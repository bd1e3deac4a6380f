"""Experiment 2: its grid, its rule, its tables."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr_experiments.benchmark import SHARES
from suwr_experiments.benchmark_summary import budget_records, chosen_shares, summarize
from suwr_experiments.cells import Cell
from suwr_experiments.choice import DEFAULT_SHARE, SINGLE_SEED_ERROR, choose_share
from suwr_experiments.options import Options
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.registry import find_experiment

EXPERIMENT = find_experiment("synthetic")


def test_the_full_grid():
    cells = EXPERIMENT.cells(Options("synthetic", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    suwr = [cell for cell in cells if cell.method == "SUWR"]
    path = [cell for cell in suwr if cell.data == "Syn4"]
    # Nobody tells SUWR how many features matter.
    assert {cell.params["max_steps"] for cell in path} == {11}
    assert len(path) == 5 * len(SHARES)
    # Six sets; on one of them also three shorter budgets, and all four without a price.
    assert len(suwr) == 5 * (6 * len(SHARES) + 3 * 2 + 1)
    assert len(cells) - len(suwr) == 9 * 6 * 5
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)


def test_the_wide_grid_has_a_hundred_columns():
    cells = EXPERIMENT.cells(Options("synthetic", "wide", methods=("SUWR",), seeds=1))
    assert {cell.data for cell in cells} == {f"Syn{n}x100" for n in range(1, 7)}
    task = EXPERIMENT.load(Cell("synthetic", "Syn4x100", "SUWR", n_train=5, n_test=4))
    assert (task.X.shape, task.X_test.shape) == ((5, 100), (4, 100))
    narrow = EXPERIMENT.cells(Options("synthetic", "full", methods=("SUWR",), seeds=1))
    assert EXPERIMENT.shape(narrow[0]) != EXPERIMENT.shape(cells[0])


losses = st.floats(0.1, 1.0)
paths = st.integers(1, 5).flatmap(
    lambda seeds: st.dictionaries(
        st.sampled_from(SHARES), st.lists(losses, min_size=seeds, max_size=seeds), min_size=1
    )
)


@given(paths)
def test_the_rule_takes_the_default_or_the_best(path):
    chosen = choose_share(path)
    default = min(path, key=lambda share: abs(np.log(share / DEFAULT_SHARE)))
    assert chosen == default or np.mean(path[chosen]) == min(np.mean(v) for v in path.values())
    assert np.mean(path[chosen]) <= np.mean(path[default])


@given(paths, st.floats(-0.05, 0.05))
def test_the_rule_compares_within_seeds(path, shift):
    # What is added to a seed's losses at every λ says nothing about λ.
    moved = {share: [v + shift * i for i, v in enumerate(vs)] for share, vs in path.items()}
    lists = list(path.values())
    if len({round(float(np.mean(v)), 9) for v in lists}) == len(lists):
        excess = np.array(lists) - np.array(lists)[np.argmin(np.mean(lists, axis=1))]
        n = excess.shape[1]
        error = excess.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else SINGLE_SEED_ERROR
        if (np.abs(excess.mean(axis=1) - 2 * error) > 1e-9).all():
            assert choose_share(moved) == choose_share(path)


def test_the_rule_leaves_the_default_only_for_a_reason():
    equal = {0.01: [0.5, 0.6], 0.02: [0.5, 0.6], 0.04: [0.7, 0.8]}
    assert choose_share(equal) == 0.01
    # Better in both seeds, by much more than the seeds differ.
    assert choose_share(equal | {0.02: [0.48, 0.581]}) == 0.02
    # Better on average, but only by one seed.
    assert choose_share(equal | {0.02: [0.4, 0.605]}) == 0.01
    with pytest.raises(ValueError, match="same number"):
        choose_share({0.01: [0.5], 0.02: [0.5, 0.6]})


def test_published_figures():
    assert PUBLISHED["SUWR"]["Syn4"] == {"cfsr": 100.0, "tpr": 98.0, "fdr": 20.0, "auroc": 0.81}
    assert "cfsr" not in PUBLISHED["L2X"]["Syn1"]
    assert all(set(rows) == set(LIMIT) for rows in PUBLISHED.values())


def record(data, method, seed, auroc, share=None, steps=11, loss=0.4, n_selected=4.0):
    params = {"max_steps": steps} if method == "SUWR" else {}
    test = {"auroc": auroc, "accuracy": 0.7, "loss": loss, "tpr": 97.0, "fdr": 3.0, "cfsr": 100.0}
    return {
        "cell": Cell(
            "synthetic", data, method, seed, sparsity_share=share, params=params
        ).to_dict(),
        "status": "done",
        "fit_seconds": 10.0,
        "metrics": {
            "test": {**test, "n_selected": n_selected},
            "validation": {"loss": loss, "n_selected": n_selected},
            "constant_loss": 0.69,
            "control_step": [0.0, 1.0, *[0.0] * 10],
        },
    }


@pytest.fixture
def records():
    found = [record("Syn4", "L2X", seed, 0.78 + 0.01 * seed) for seed in (0, 1)]
    for seed in (0, 1):
        found.append(record("Syn4", "SUWR", seed, 0.81, 0.004, loss=0.400 + 0.01 * seed))
        found.append(record("Syn4", "SUWR", seed, 0.82, 0.01, loss=0.401 + 0.008 * seed))
        found.append(record("Syn4", "SUWR", seed, 0.70, 0.1, loss=0.6))
        # Steps and price of the budget figure must not be taken for the path.
        found += [record("Syn1", "SUWR", seed, 0.7, s, t) for s in (0.0, 0.01) for t in (2, 11)]
    return found


def test_summaries_choose_by_validation(records):
    assert chosen_shares(records) == {"Syn4": 0.01, "Syn1": 0.01}
    four = next(s for s in summarize(records) if (s.data, s.method) == ("Syn4", "SUWR"))
    assert four.values("auroc") == [0.82, 0.82]
    assert set(budget_records(records, "Syn1")) == {0.0, 0.01}


def test_tables_and_figures(records, tmp_path):
    paths = EXPERIMENT.write_tables(records, tmp_path) + EXPERIMENT.write_figures(records, tmp_path)
    names = {path.name for path in paths}
    assert {"table.md", "table.csv", "table.tex", "path.csv"} <= names
    for figure in ("curves", "control-step", "budget"):
        assert {f"{figure}.png", f"{figure}.svg"} <= names
    page = (tmp_path / "table.md").read_text()
    assert "| L2X | 0.7850 ± 0.0071 (0.781) |" in page
    assert "| → 0.01 |" in page
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    four = next(r for r in rows if (r["data"], r["method"]) == ("Syn4", "SUWR"))
    assert (float(four["auroc"]), float(four["auroc_published"])) == (0.82, 0.81)
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
