"""What the records of several experiments have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from suwr_experiments.cells import Cell
from suwr_experiments.data import Task

__all__ = ["classification_scores", "leakage_verdict", "reveal_steps"]


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


def reveal_steps(model: Any, X: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """The step, from 1, at which each unit of each row was revealed; 0 where it never was.

    Returns
    -------
    ndarray of int, shape (n, n_units), or None
        None for methods that have no steps.
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
        # TabNet attends to several units in each of its steps.
        _, masks = model.network_.forward_masks(model._encode(model._read(X)))
        used = np.stack([masks[step].detach().cpu().numpy() > 0 for step in sorted(masks)])
        return np.where(used.any(axis=0), used.argmax(axis=0) + 1, 0)
    return None


def leakage_verdict(cell: Cell, model: Any, task: Task, X: Any = None) -> dict[str, Any]:
    """The auditor's verdict with its witness, where the cell asks for one.

    Parameters
    ----------
    cell, model, task
    X : FiniteProblem or ndarray, optional
        What to audit on, instead of the first thousand test rows.
    """
    if not cell.audit:
        return {}
    from suwr.audit import audit

    rows: Any = task.X_test[:1000] if X is None else X
    labels = task.y_test[:1000] if X is None else None
    found = audit(model, rows, labels, random_state=0, gaps=False, max_seconds=120, verbose=False)
    report = found.to_dict()
    kept = ("verdict", "leaks", "evidence", "exact", "support", "witness", "probes", "exact_bits")
    return {"audit": {name: report[name] for name in kept}}
