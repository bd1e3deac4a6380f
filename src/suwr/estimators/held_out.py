"""Evaluation of fitted estimators, and what model files say about training and held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from suwr._utils.text import plain_repr
from suwr._utils.validation import Interval, check_real
from suwr.data.dates import DateParts
from suwr.estimators.costs import charge_rows
from suwr.estimators.evaluation import Evaluation, Outcome, evaluate_outcome
from suwr.estimators.regression_target import RegressionTarget
from suwr.estimators.starts import read_starts
from suwr.nn.rollout import Policy, Trace
from suwr.nn.step import Starts, training_starts
from suwr.training.data import Rows

if TYPE_CHECKING:
    from suwr.data.frame import Table
    from suwr.estimators.sequential import SequentialModel

__all__ = ["evaluate_rows", "held_out_state", "record_held_out", "restore_held_out"]


def evaluate_rows(
    model: SequentialModel,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    confidence: float,
    policy: Policy,
    costs: Any = None,
) -> Evaluation:
    """Evaluate a model on a table; see `SequentialModel.evaluate`."""
    check_real(confidence, "confidence", "evaluate", Interval(Real, 0, 1, closed="neither"))
    table = model._read(X)
    check_consistent_length(X, y)
    target = _target(model, y)
    weight = np.ones(len(target))
    if sample_weight is not None:
        weight = column_or_1d(np.asarray(sample_weight, dtype=np.float64))
        check_consistent_length(X, weight)
        if not (weight >= 0).all() or not np.isfinite(weight).all() or not weight.any():
            raise ValueError("'sample_weight' must not be negative, and not zero for all rows.")
    starts = read_starts(model, "evaluate", table.n_rows, costs=costs)
    predictions, orders = [], []
    for values, trace in model._rollouts(table, policy, starts=starts):
        mask = torch.as_tensor(trace.mask, device=values.device)
        predictions.append(policy.predict(values, mask).cpu().numpy())
        orders.append(trace.order)
    paid = charge_rows(model.units_, orders, starts)
    own = _outcome(model, np.concatenate(predictions), paid)
    everything = _all_features(model, table, policy, starts)
    return _evaluate(model, target, own, everything, weight, confidence)


def record_held_out(model: SequentialModel, rows: Rows) -> None:
    """Set ``report_`` and ``feature_importances_`` from the validation rows of a fit."""
    policy, values, costs, masked = model.policy_, [], [], []
    effects = np.zeros(len(model.units_))
    with torch.no_grad():
        for _, part in rows.blocks():
            starts = training_starts(policy.inputs, part.values, part.costs)
            trace = policy.rollout(part.values, record=True, starts=starts)
            effects += _unit_effects(model, trace)
            mask = torch.as_tensor(trace.mask, device=policy.device)
            values.append(policy.predict(part.values, mask).cpu().numpy())
            masked.append(policy.predict(part.values, torch.ones_like(mask)).cpu().numpy())
            costs.append(charge_rows(model.units_, [trace.order], starts))
    truth = rows.targets.cpu().numpy()
    target = truth.argmax(axis=1) if _is_classifier(model) else model._in_user_units(truth)[:, 0]
    own = _outcome(model, np.concatenate(values), np.concatenate(costs))
    total = _total_costs(model, len(rows), Starts(costs=rows.costs))
    everything = _outcome(model, np.concatenate(masked), total)
    weight = rows.weight.cpu().numpy().astype(np.float64)
    model.report_ = _evaluate(model, target, own, everything, weight, 0.95)
    importances = np.zeros(model.n_features_in_)
    for unit in np.flatnonzero(effects):
        columns = model.units_.columns_of(int(unit))
        importances[columns] += effects[unit] / len(columns)
    total = importances.sum()
    model.feature_importances_ = importances / total if total > 0 else importances


def _unit_effects(model: SequentialModel, trace: Trace) -> NDArray[np.float64]:
    """Return the summed changes of the predictions by the steps that reveal each unit."""
    assert trace.prediction is not None
    effects = np.zeros(len(model.units_))
    for t in range(trace.order.shape[1]):
        units = trace.order[:, t]
        active = units >= 0
        rows = np.flatnonzero(active.any(axis=1))
        change = np.abs(trace.prediction[rows, t + 1] - trace.prediction[rows, t]).sum(axis=1)
        # As in `suwr.narrative.explanation`: units that are revealed together share the effect.
        shared = (change / active[rows].sum(axis=1))[:, None] * active[rows]
        np.add.at(effects, np.maximum(units[rows], 0), shared)
    return effects


def _is_classifier(model: SequentialModel) -> bool:
    return model._class_labels() is not None


def _outcome(
    model: SequentialModel, prediction: NDArray[np.float32], cost: NDArray[np.float64]
) -> Outcome:
    shown = model._in_user_units(prediction)
    if not _is_classifier(model):
        return Outcome(shown[:, 0], cost)
    return Outcome(shown / shown.sum(axis=1, keepdims=True), cost)


def _total_costs(model: SequentialModel, n: int, starts: Starts | None) -> NDArray[np.float64]:
    """Return the cost of all units for each row that starts from nothing."""
    steps = model.units_.all_steps()
    starts = None if starts is None else replace(starts, known=None)
    return charge_rows(model.units_, [np.broadcast_to(steps, (n, *steps.shape[1:]))], starts)


def _all_features(
    model: SequentialModel, table: Table, policy: Policy, starts: Starts | None
) -> Outcome | None:
    """Return the predictions from all cells; None if one of them is not valid."""
    if table.invalid:
        return None
    parts = []
    for rows in model._chunks(table):
        values = model._encode(rows)
        mask = torch.ones((len(values), model.n_features_in_), dtype=torch.bool)
        parts.append(policy.predict(values, mask.to(values.device)).cpu().numpy())
    return _outcome(model, np.concatenate(parts), _total_costs(model, table.n_rows, starts))


def _evaluate(
    model: SequentialModel,
    target: NDArray[Any],
    own: Outcome,
    all_features: Outcome | None,
    weight: NDArray[np.float64],
    confidence: float,
) -> Evaluation:
    prior = model._constant_prediction()
    if prior is None:
        # An older model file: the prediction before anything is revealed.
        values = torch.zeros((1, len(model.encoder_.column_of)), device=model.device_)
        mask = torch.zeros((1, model.n_features_in_), dtype=torch.bool, device=model.device_)
        prior = model._in_user_units(model.policy_.predict(values, mask).cpu().numpy())
    repeated = np.repeat(np.atleast_2d(prior), len(target), axis=0)
    constant = Outcome(repeated if _is_classifier(model) else repeated[:, 0], np.zeros(len(target)))
    return evaluate_outcome(
        target, model._class_labels(), own, constant, all_features, weight, confidence,
        row_losses=getattr(model, "_row_losses", None),
        quantile=getattr(model, "loss", None) == "quantile",
    )  # fmt: skip


def _target(model: SequentialModel, y: Any) -> NDArray[Any]:
    """Return the numbers of the classes, or the values of ``y``."""
    labels = model._class_labels()
    values = column_or_1d(y, warn=True)
    if labels is None:
        numbers = np.asarray(values, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("y must be finite for every row.")
        if isinstance(model, RegressionTarget):
            model._check_domain(numbers)
        return numbers
    index = {label: number for number, label in enumerate(labels)}
    found = [index.get(v) for v in values.tolist()]
    if None in found:
        unknown = plain_repr(values[found.index(None)])
        known = ", ".join(map(repr, labels[:8]))
        raise ValueError(f"y must contain the classes of fit: {known}. Got {unknown} instead.")
    return np.array(found, dtype=np.intp)


def held_out_state(model: Any) -> dict[str, Any]:
    """Return what a model file says about its target and held-out rows."""
    state: dict[str, Any] = {
        "target_name": model.target_name_,
        "report": None if model.report_ is None else model.report_.to_dict(),
        "importances": None,
    }
    if model.feature_importances_ is not None:
        state["importances"] = model.feature_importances_.tolist()
    if model.training_file_ is not None:
        state["training_file"] = model.training_file_
    if model.dates_ is not None:
        state["dates"] = model.dates_.to_list()
    if _is_classifier(model):
        prior = model.class_prior_
        state["class_prior"] = None if prior is None else prior.tolist()
    return state


def restore_held_out(model: Any, state: Mapping[str, Any]) -> None:
    """Set the attributes of `held_out_state`; files of suwr 0.2.0 lack them."""
    name, report = state.get("target_name"), state.get("report")
    model.target_name_ = None if name is None else str(name)
    if state.get("training_file") is not None:
        model.training_file_ = str(state["training_file"])
    if state.get("dates") is not None:
        model.dates_ = DateParts.from_list(state["dates"])
        parts = {part for own in model.dates_.groups_.values() for part in own}
        if not parts <= set(state["names"] or ()):
            raise ValueError("The parts of its dates are not columns.")
    model.report_ = None if report is None else Evaluation.from_dict(report)
    stored = state.get("importances")
    model.feature_importances_ = None if stored is None else np.array(stored, dtype=np.float64)
    if stored is not None:
        if model.feature_importances_.shape != (model.n_features_in_,):
            raise ValueError("There must be one importance per column.")
        if not ((model.feature_importances_ >= 0) & np.isfinite(model.feature_importances_)).all():
            raise ValueError("The importances of columns must be finite and not negative.")
    labels = model._class_labels()
    if labels is not None:
        model.class_prior_ = None
    if labels is not None and state.get("class_prior") is not None:
        prior = np.array(state["class_prior"], dtype=np.float64)
        if prior.shape != (len(labels),) or not (prior > 0).all() or abs(prior.sum() - 1) > 1e-6:
            raise ValueError("The class frequencies must be positive and sum to one.")
        model.class_prior_ = prior
