"""Experiment 2: grid, choice of λ, tables and figures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.synthetic_experiment import SHARES, SyntheticExperiment
from suwr_experiments.synthetic_page import findings, page
from suwr_experiments.synthetic_results import (
    DEFAULT_SHARE,
    SINGLE_SEED_ERROR,
    budget_records,
    choose_share,
    chosen_shares,
    summarize,
    write_figures,
    write_tables,
)

EXPERIMENT = SyntheticExperiment()


def test_full_grid():
    cells = EXPERIMENT.cells(RunConfig("synthetic", "full"))
    assert len({cell.key for cell in cells}) == len(cells)
    suwr = [cell for cell in cells if cell.method == "SUWR"]
    path = [cell for cell in suwr if cell.data == "Syn4"]
    # SUWR does not receive the number of relevant features.
    assert {cell.params["max_steps"] for cell in path} == {11}
    assert len(path) == 5 * len(SHARES)
    # Six data sets; on one of them also three smaller budgets, and all four budgets with λ = 0.
    assert len(suwr) == 5 * (6 * len(SHARES) + 3 * 2 + 1)
    assert len(cells) - len(suwr) == 10 * 6 * 5
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)


def test_wide_grid_has_a_hundred_columns():
    cells = EXPERIMENT.cells(RunConfig("synthetic", "wide", methods=("SUWR",), seeds=1))
    assert {cell.data for cell in cells} == {f"Syn{n}x100" for n in range(1, 7)}
    task = EXPERIMENT.load(Cell("synthetic", "Syn4x100", "SUWR", n_train=5, n_test=4))
    assert (task.X.shape, task.X_test.shape) == ((5, 100), (4, 100))


losses = st.floats(0.1, 1.0)
paths = st.integers(1, 5).flatmap(
    lambda seeds: st.dictionaries(
        st.sampled_from(SHARES), st.lists(losses, min_size=seeds, max_size=seeds), min_size=1
    )
)


@given(paths)
def test_choice_is_the_default_or_the_best(path):
    chosen = choose_share(path)
    default = min(path, key=lambda share: abs(np.log(share / DEFAULT_SHARE)))
    assert chosen == default or np.mean(path[chosen]) == min(np.mean(v) for v in path.values())
    assert np.mean(path[chosen]) <= np.mean(path[default])


@given(paths, st.floats(-0.05, 0.05))
def test_choice_compares_within_seeds(path, shift):
    # A constant offset of a seed's losses does not change the choice.
    moved = {share: [v + shift * i for i, v in enumerate(vs)] for share, vs in path.items()}
    lists = list(path.values())
    if len({round(float(np.mean(v)), 9) for v in lists}) == len(lists):
        excess = np.array(lists) - np.array(lists)[np.argmin(np.mean(lists, axis=1))]
        n = excess.shape[1]
        error = excess.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else SINGLE_SEED_ERROR
        if (np.abs(excess.mean(axis=1) - 2 * error) > 1e-9).all():
            assert choose_share(moved) == choose_share(path)


def test_choice_leaves_the_default_only_for_a_significant_difference():
    equal = {0.01: [0.5, 0.6], 0.02: [0.5, 0.6], 0.04: [0.7, 0.8]}
    assert choose_share(equal) == 0.01
    # Better in both seeds, by more than the differences vary.
    assert choose_share(equal | {0.02: [0.48, 0.581]}) == 0.02
    # Better on average, but in one seed only.
    assert choose_share(equal | {0.02: [0.4, 0.605]}) == 0.01
    with pytest.raises(ValueError, match="same number"):
        choose_share({0.01: [0.5], 0.02: [0.5, 0.6]})


def test_published_values():
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
        # Cells of the budget figure are not part of the λ path.
        found += [record("Syn1", "SUWR", seed, 0.7, s, t) for s in (0.0, 0.01) for t in (2, 11)]
    return found


def test_summaries_choose_by_validation_loss(records):
    assert chosen_shares(records) == {"Syn4": 0.01, "Syn1": 0.01}
    four = next(s for s in summarize(records) if (s.data, s.method) == ("Syn4", "SUWR"))
    assert four.values("auroc") == [0.82, 0.82]
    assert set(budget_records(records, "Syn1")) == {0.0, 0.01}


def test_tables_and_figures(records, tmp_path):
    paths = write_tables(records, tmp_path) + write_figures(records, tmp_path)
    names = {path.name for path in paths}
    assert {"table.md", "table.tex"} <= names
    for figure in ("curves", "control-step", "budget"):
        assert f"{figure}.svg" in names
    table = (tmp_path / "table.md").read_text()
    assert "| L2X | 0.7850 ± 0.0071 (0.781) |" in table
    assert "| → 0.01 |" in table
    assert "| SUWR | 0.8200" in table
    assert r"\toprule" in (tmp_path / "table.tex").read_text()


def test_findings_state_the_records(records):
    measured = dict(findings(records))
    # The oracle was not run.
    assert measured["On Syn1 to Syn3 SUWR reaches the oracle's AUROC."] == "not measured"
    assert measured["SUWR selects x11 at the very first step."].endswith("Syn4 100.0 %")
    budgets = next(text for finding, text in measured.items() if "for any T" in finding)
    assert budgets == "features by T: 2: 4.00, 11: 4.00"


def test_findings_name_the_methods_that_are_better():
    records = [record("Syn1", "SUWR", 0, 0.70, 0.01)]
    records += [record("Syn1", name, 0, 0.69) for name in ("L2X", "INVASE", "REALX", "TabNet")]
    records.append(record("Syn1", "CAE", 0, 0.71))
    measured = dict(findings(records))["SUWR has the highest AUROC of all methods but the oracle."]
    assert measured == "SUWR: Syn1 0.7000; higher: Syn1 (CAE 0.7100)"


def test_page(records):
    for r in records:
        r["metrics"] |= {"column_share": [0.5] * 11, "column_share_low": [0.25] * 11}
    text = page(records, "there")
    assert "![AUROC against features](there/curves.svg)" in text
    assert "Syn1 0.01, Syn4 0.01" in text
    assert "| L2X | – | +0.004 (0.007) |" in text
    assert "| SUWR | 50 | 50 | 25 | 25 | nan | nan |" in text
