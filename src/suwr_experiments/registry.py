"""What an experiment is to the runner: cells, rows, measurements, outputs."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from suwr_experiments.cells import Cell
from suwr_experiments.data import Task
from suwr_experiments.fitting import fit_alone
from suwr_experiments.options import Options

__all__ = ["EXPERIMENTS", "Experiment", "find_experiment"]

EXPERIMENTS = {
    "pareto": "suwr_experiments.pareto",
    "synthetic": "suwr_experiments.benchmark",
    "mnist": "suwr_experiments.mnist",
}


class Experiment(ABC):
    """One of the paper's experiments."""

    @abstractmethod
    def cells(self, options: Options) -> list[Cell]:
        """The grid: every fit that the preset asks for."""

    def shape(self, cell: Cell) -> str:
        """What cells must have in common to be trained together."""
        return cell.shape()

    def run(self, cell: Cell, device: str) -> tuple[dict[str, Any], float]:
        """Fit and measure one cell: its measurements, and the seconds of the fit."""
        task = self.load(cell)
        model, seconds = fit_alone(cell, task, device)
        return self.measure(cell, model, task), seconds

    @abstractmethod
    def load(self, cell: Cell) -> Task:
        """The rows of a cell."""

    @abstractmethod
    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """What the record holds of a fitted model; numbers that JSON can hold."""

    @abstractmethod
    def write_tables(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """Tables from finished records: Markdown, CSV, LaTeX."""

    @abstractmethod
    def write_figures(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """Figures from finished records: PNG and SVG."""


def find_experiment(name: str) -> Experiment:
    """The experiment of a name.

    Examples
    --------
    >>> type(find_experiment("pareto")).__name__
    'ParetoExperiment'
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"The 'experiment' parameter must be one of {', '.join(EXPERIMENTS)}. "
            f"Got {name!r} instead."
        )
    found: Experiment = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    return found
