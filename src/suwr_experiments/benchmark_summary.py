"""From the records of Experiment 2 to the numbers that its tables and figures show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from suwr_experiments.benchmark import MAX_STEPS, METHODS
from suwr_experiments.cells import Cell
from suwr_experiments.choice import choose_share

__all__ = ["Summary", "budget_records", "chosen_shares", "path_records", "summarize"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Summary:
    """One method on one data set: the records of its seeds.

    Attributes
    ----------
    data, method : str
    share : float or None
        The λ that was chosen for SUWR.
    records : tuple
    """

    data: str
    method: str
    share: float | None
    records: tuple[Record, ...]

    def values(self, name: str, part: str = "test") -> list[float]:
        """One number of every seed."""
        return [float(record["metrics"][part][name]) for record in self.records]

    def over_seeds(self, read: Callable[[Record], Any]) -> list[Any]:
        """Anything of every seed."""
        return [read(record) for record in self.records]


def path_records(records: list[Record], data: str) -> dict[float, list[Record]]:
    """SUWR's λ path on one data set: records of each share, by seed."""
    found: dict[float, list[Record]] = {}
    for record in records:
        cell = Cell.from_dict(record["cell"])
        wanted = (cell.data, cell.method) == (data, "SUWR")
        # Without a price there is nothing to choose; those cells belong to the budgets.
        if wanted and cell.sparsity_share and cell.params["max_steps"] == MAX_STEPS:
            found.setdefault(cell.sparsity_share, []).append(record)
    return {share: sorted(found[share], key=_seed) for share in sorted(found)}


def chosen_shares(records: list[Record]) -> dict[str, float]:
    """λ of each data set by the rule of `suwr_experiments.choice`, from complete seeds."""
    chosen = {}
    for data in _data_sets(records):
        path = path_records(records, data)
        seeds = [{_seed(r) for r in found} for found in path.values()]
        complete = set.intersection(*seeds) if seeds else set()
        if complete:
            chosen[data] = choose_share(
                {share: _validation_losses(found, complete) for share, found in path.items()}
            )
    return chosen


def _validation_losses(records: list[Record], seeds: set[int]) -> list[float]:
    """In units of the constant loss."""
    wanted = [r["metrics"] for r in records if _seed(r) in seeds]
    return [m["validation"]["loss"] / m["constant_loss"] for m in wanted]


def summarize(records: list[Record]) -> list[Summary]:
    """All methods on all data sets, in the order of the paper's table."""
    chosen = chosen_shares(records)
    found = []
    for data in _data_sets(records):
        for method in METHODS:
            share = None
            if method == "SUWR":
                share = chosen.get(data)
                some = path_records(records, data).get(share, []) if share is not None else []
            else:
                some = [
                    r for r in records if (r["cell"]["data"], r["cell"]["method"]) == (data, method)
                ]
            if some:
                found.append(Summary(data, method, share, tuple(sorted(some, key=_seed))))
    return found


def budget_records(records: list[Record], data: str) -> dict[float, dict[int, list[Record]]]:
    """SUWR with different most steps, by share and by budget."""
    found: dict[float, dict[int, list[Record]]] = {}
    for record in records:
        cell = Cell.from_dict(record["cell"])
        if (cell.data, cell.method) == (data, "SUWR") and cell.sparsity_share is not None:
            budgets = found.setdefault(cell.sparsity_share, {})
            budgets.setdefault(cell.params["max_steps"], []).append(record)
    return {share: budgets for share, budgets in sorted(found.items()) if len(budgets) > 1}


def _seed(record: Record) -> int:
    return int(record["cell"]["seed"])


def _data_sets(records: list[Record]) -> list[str]:
    return sorted({r["cell"]["data"] for r in records})
