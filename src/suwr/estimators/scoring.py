"""Everything that a fitted model says of rows, from a single rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from suwr.estimators.sequential import SequentialModel

__all__ = ["Scores", "no_scores", "score_rows"]


@dataclass(frozen=True)
class Scores:
    """Predictions, masks and the order of revealing.

    Attributes
    ----------
    prediction : ndarray of shape (n,)
        As `predict` gives it.
    probability : ndarray of shape (n, n_classes), or None
        As `predict_proba` gives it; None for regression.
    mask : ndarray of bool, shape (n, d)
        As `select` gives it.
    order : ndarray of int, shape (n, n_steps, units_per_step)
        Units in the order of their revealing; -1 where nothing was revealed.
    """

    prediction: NDArray[Any]
    probability: NDArray[np.float64] | None
    mask: NDArray[np.bool_]
    order: NDArray[np.intp]


def score_rows(model: SequentialModel, X: Any) -> Scores:
    """What `predict`, `predict_proba`, `select` and `explain` say of ``X``, bit for bit.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame of shape (n, d)
    """
    outputs, masks, orders = [], [], []
    for values in model._chunks(model._read(X)):
        trace = model.policy_.rollout(values)
        mask = torch.as_tensor(trace.mask, device=values.device)
        outputs.append(model.policy_.predict(values, mask).cpu().numpy())
        masks.append(trace.mask)
        orders.append(trace.order)
    shown = model._in_user_units(np.concatenate(outputs))
    longest = max(o.shape[1] for o in orders)
    padded = [
        np.pad(o, ((0, 0), (0, longest - o.shape[1]), (0, 0)), constant_values=-1) for o in orders
    ]
    return _scores(model, shown, np.concatenate(masks), np.concatenate(padded))


def no_scores(model: SequentialModel) -> Scores:
    """What a model says of no rows."""
    width = model.policy_.units_per_step
    return _scores(
        model,
        np.zeros((0, model._n_outputs())),
        np.zeros((0, model.n_features_in_), dtype=bool),
        np.zeros((0, 0, width), dtype=np.intp),
    )


def _scores(
    model: Any, shown: NDArray[np.float64], mask: NDArray[np.bool_], order: NDArray[np.intp]
) -> Scores:
    if model._class_labels() is None:
        return Scores(shown[:, 0], None, mask, order)
    prediction = model.classes_[shown.argmax(axis=1)]
    return Scores(prediction, shown / shown.sum(axis=1, keepdims=True), mask, order)
