"""What an experiment is to the runner: cells, data, measurements, outputs."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suwr.experiments.cells import Cell
from suwr.experiments.options import Options

__all__ = ["EXPERIMENTS", "Experiment", "Task", "find_experiment"]

EXPERIMENTS = {
    "pareto": "suwr.experiments.pareto",
    "synthetic": "suwr.experiments.benchmark",
    "mnist": "suwr.experiments.mnist",
}


@dataclass(frozen=True)
class Task:
    """The rows of a cell.

    Attributes
    ----------
    X, y : ndarray
        Rows to train on.
    X_test, y_test : ndarray
        Rows to be judged on, once.
    kind : {'Classifier', 'Regressor'}
    told : dict
        What only an oracle is told, by parameter name.
    groups : object or None
        Units, where they are not single columns.
    facts : dict
        What measuring needs to know besides.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]
    kind: Literal["Classifier", "Regressor"] = "Classifier"
    told: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


class Experiment(ABC):
    """One of the paper's experiments."""

    @abstractmethod
    def cells(self, options: Options) -> list[Cell]:
        """The grid: every fit that the preset asks for."""

    def shape(self, cell: Cell) -> str:
        """What cells must have in common to be trained together."""
        return cell.shape()

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
