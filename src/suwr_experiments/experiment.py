"""What an experiment is to the runner, and the fitting and evaluation that experiments share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score

from suwr._utils.validation import check_choice
from suwr_experiments.config import Cell, RunConfig

__all__ = [
    "Experiment",
    "Task",
    "audit_report",
    "classification_scores",
    "constant_loss",
    "fit_alone",
    "make_model",
    "reveal_steps",
    "validation_rows",
]


@dataclass(frozen=True)
class Task:
    """Training and test rows of a cell.

    Attributes
    ----------
    X, y : ndarray, or data frame and ndarray
        Training rows.
    X_test, y_test : ndarray, or data frame and ndarray
        Test rows.
    kind : {'Classifier', 'Regressor'}
    oracle_params : dict
        Parameters of the estimator that only the oracle receives.
    groups : object or None
        Units, if they are not single columns.
    facts : dict
        Ground truth that the evaluation needs.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    kind: Literal["Classifier", "Regressor"] = "Classifier"
    oracle_params: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


class Experiment(ABC):
    """One of the paper's experiments: a grid of fits and their evaluation."""

    @abstractmethod
    def cells(self, config: RunConfig) -> list[Cell]:
        """The grid: every fit of the preset."""

    def run(self, cell: Cell, device: str) -> tuple[dict[str, Any], float]:
        """Fit and evaluate one cell; return its metrics and the duration of the fit in seconds."""
        task = self.load(cell)
        model, seconds = fit_alone(cell, task, device)
        return self.measure(cell, model, task), seconds

    @abstractmethod
    def load(self, cell: Cell) -> Task:
        """Training and test rows of a cell."""

    @abstractmethod
    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Metrics of a fitted model, as JSON values."""


def make_model(cell: Cell, task: Task, device: str = "cpu") -> Any:
    """Build the unfitted estimator of a cell."""
    params: dict[str, Any] = {**cell.params, "random_state": cell.seed, "device": device}
    if cell.sparsity_share is not None:
        params["sparsity_weight"] = cell.sparsity_share * constant_loss(task)
    if task.groups is not None:
        params["groups"] = task.groups
    if cell.method == "SUWR":
        import suwr

        # Cells name these like the parameters of baselines: records are keyed by a digest of them.
        given = {f.name for f in fields(suwr.TrainingConfig)} & params.keys()
        training = params.pop("training", {}) | {name: params.pop(name) for name in given}
        if "units_per_step" in params:
            params["costs"] = suwr.Costs(of=params.pop("units_per_step"))
        return getattr(suwr, f"SUWR{task.kind}")(training=training, **params)
    from suwr import baselines

    check_choice(cell.method, "method", "Cell", ("SUWR", *baselines.METHODS))
    if "n_units" in params:
        # The former name of the budget: committed records are keyed by a digest of it.
        params["max_steps"] = params.pop("n_units")
    if cell.method == "Oracle":
        params |= task.oracle_params
    return getattr(baselines, f"{cell.method}{task.kind}")(**params)


def constant_loss(task: Task) -> float:
    """Loss of the best constant prediction on the training rows.

    Examples
    --------
    >>> X, y = np.zeros((2, 1)), np.array([0, 1])
    >>> round(constant_loss(Task(X, y, X, y)), 6)
    0.693147
    """
    if task.kind == "Regressor":
        return float(np.var(task.y))
    share = np.unique(task.y, return_counts=True)[1] / len(task.y)
    return float(-(share * np.log(share)).sum())


def fit_alone(cell: Cell, task: Task, device: str = "cpu") -> tuple[Any, float]:
    """Fit one cell; return the model and the duration in seconds."""
    model = make_model(cell, task, device)
    start = time.perf_counter()
    model.fit(task.X, task.y)
    return model, time.perf_counter() - start


def validation_rows(model: Any, task: Task) -> NDArray[np.intp]:
    """Indices of the training rows that were held out for validation.

    The split depends on ``random_state`` alone, so it can be recomputed from the parameters.
    """
    numbers: NDArray[np.intp] = clone(model)._training_data(task.X, task.y, None).validation_numbers
    return numbers


def classification_scores(y: NDArray[Any], probability: NDArray[np.float64]) -> dict[str, float]:
    """Accuracy, cross-entropy and, for two classes, AUROC.

    Parameters
    ----------
    y : ndarray of int, shape (n,)
        Classes 0, 1, …
    probability : ndarray of shape (n, n_classes)

    Examples
    --------
    >>> p = np.array([[0.8, 0.2], [0.4, 0.6]])
    >>> {k: round(v, 3) for k, v in classification_scores(np.array([0, 1]), p).items()}
    {'accuracy': 1.0, 'loss': 0.367, 'auroc': 1.0}
    """
    n_classes = probability.shape[1]
    scores = {
        "accuracy": float((probability.argmax(axis=1) == y).mean()),
        "loss": float(log_loss(y, probability, labels=np.arange(n_classes))),
    }
    if n_classes == 2:
        scores["auroc"] = float(roc_auc_score(y, probability[:, 1]))
    return scores


def reveal_steps(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.intp] | None:
    """Step, from 1, that reveals each unit of each row; 0 if none does.

    Returns
    -------
    ndarray of int, shape (n, n_units), or None
        None if the method does not select sequentially.
    """
    if hasattr(model, "policy_"):
        order = model.policy_.rollout(model._encode(model._read(X))).order
        steps = np.zeros((len(X), len(model.units_)), dtype=np.intp)
        for step in range(order.shape[1]):
            for slot in range(order.shape[2]):
                rows = np.flatnonzero(order[:, step, slot] >= 0)
                steps[rows, order[rows, step, slot]] = step + 1
        return steps
    if hasattr(getattr(model, "network_", None), "forward_masks"):
        # TabNet attends to several units per step.
        _, masks = model.network_.forward_masks(model._encode(model._read(X)))
        used = np.stack([masks[step].detach().cpu().numpy() > 0 for step in sorted(masks)])
        return np.where(used.any(axis=0), used.argmax(axis=0) + 1, 0)
    return None


def audit_report(cell: Cell, model: Any, task: Task, X: Any = None) -> dict[str, Any]:
    """The auditor's report as a metric named ``audit``; empty unless the cell requests it.

    Parameters
    ----------
    cell : Cell
    model : estimator
    task : Task
    X : FiniteProblem or ndarray, default=None
        Data of the audit; None is the first thousand test rows.
    """
    if not cell.audit:
        return {}
    from suwr.auditing import audit

    rows: Any = task.X_test[:1000] if X is None else X
    labels = task.y_test[:1000] if X is None else None
    found = audit(model, rows, labels, random_state=0, gaps=False, max_seconds=120, verbose=False)
    report = found.to_dict()
    kept = ("verdict", "leaks", "evidence", "exact", "support", "witness", "probes", "exact_bits")
    return {"audit": {name: report[name] for name in kept}}
