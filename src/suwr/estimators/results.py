"""Results of rollouts for users: decisions, scores and explanations of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from suwr._utils.draws import RowDraws
from suwr.data.descriptions import warn_unusual
from suwr.data.frame import Table
from suwr.data.units import Patches
from suwr.estimators.container import ModelIssuer
from suwr.estimators.export import export_model
from suwr.estimators.limits import always_known, describe_start, stop_reasons
from suwr.exceptions import UnsupportedModelError
from suwr.narrative.explanation import Explanation, Layout, Narrative, PageModel, Step
from suwr.narrative.given import Given
from suwr.narrative.receipt import Origin
from suwr.nn.rollout import Policy, Trace
from suwr.nn.step import Starts

if TYPE_CHECKING:
    from suwr.estimators.sequential import SequentialModel


class Decisions(NamedTuple):
    """The greedy policy and the predictor in n states.

    Attributes
    ----------
    stop_probability : ndarray of shape (n,)
        ζ_stop; the policy stops if it is at least one half.
    units : ndarray of int, shape (n, units_per_step)
        The units that it would reveal next, best first; -1 where fewer are left.
    prediction : ndarray of shape (n, n_outputs)
        Class probabilities, or the value in the units of ``y``.
    """

    stop_probability: NDArray[np.float64]
    units: NDArray[np.intp]
    prediction: NDArray[np.float64]


def decide_masked(model: Any, policy: Policy, table: Table, masks: NDArray[np.bool_]) -> Decisions:
    """Evaluate policy and predictor on masked rows.

    Parameters
    ----------
    model : SequentialModel
        Fitted.
    policy : Policy
        At one λ.
    table : Table
        Parsed by the encoder of the model. Hidden cells are not read.
    masks : ndarray of bool, shape (n, d)
        The revealed cells.
    """
    table.check_revealed(masks)
    values = model._encode(table)
    mask = torch.as_tensor(masks, device=values.device)
    with torch.inference_mode():
        decision = policy.decide(values, mask)
        prediction = policy.predict(values, mask).cpu().numpy()
    return Decisions(
        decision.stop_probability.cpu().numpy().astype(np.float64),
        decision.best(policy.units_per_step).cpu().numpy(),
        model.target_.shown(prediction),
    )


def expected_gain(model: Any, policy: Policy, gain: float) -> float | None:
    """Return the expected reduction of the loss by continuing, less the costs.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    policy : Policy
        Its policy, at some λ.
    gain : float
        `Decision.gain`, which training has scaled.

    Returns
    -------
    float or None
        In units of the loss of the best constant prediction; None if the policy stops otherwise.
    """
    if not policy.stops_by_gain:
        return None
    scale = model._training_config().reward_scale
    if model.weight_range_ is not None and policy.condition is not None:
        # See `SparsityWeights.importance`.
        scale *= (model.weight_range_.high / model.weight_range_.low) ** (-policy.condition / 4)
    return gain / scale


@dataclass(frozen=True)
class Scores:
    """Predictions, masks and the order of the revealed units, from a single rollout.

    Attributes
    ----------
    prediction : ndarray of shape (n,)
        As returned by ``predict``.
    probability : ndarray of shape (n, n_classes), or None
        As returned by ``predict_proba``; None for regression.
    mask : ndarray of bool, shape (n, d)
        As returned by ``select``.
    order : ndarray of int, shape (n, n_steps, units_per_step)
        The revealed units in order; -1 where no unit was revealed.
    """

    prediction: NDArray[Any]
    probability: NDArray[np.float64] | None
    mask: NDArray[np.bool_]
    order: NDArray[np.intp]


def score_rows(model: SequentialModel, X: Any, rows: Sequence[Any] | None = None) -> Scores:
    """Return what ``predict``, ``predict_proba`` and ``select`` return for ``X``, bit for bit.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame of shape (n, d)
    rows : sequence, optional
        Labels of the rows, for errors.
    """
    outputs, masks, orders = [], [], []
    policy = model._policy_at()
    for values, trace in model._rollouts(model._read(X, rows), policy):
        mask = torch.as_tensor(trace.mask, device=values.device)
        outputs.append(policy.predict(values, mask).cpu().numpy())
        masks.append(trace.mask)
        orders.append(trace.order)
    predictions = model.target_.shown(np.concatenate(outputs))
    longest = max(o.shape[1] for o in orders)
    order = np.concatenate([_pad_steps(o, longest, -1) for o in orders])
    return _make_scores(model, predictions, np.concatenate(masks), order)


def empty_scores(model: SequentialModel) -> Scores:
    """Return the scores of a table without rows."""
    return _make_scores(
        model,
        np.zeros((0, model.target_.n_outputs)),
        np.zeros((0, model.n_features_in_), dtype=bool),
        np.zeros((0, 0, model.policy_.units_per_step), dtype=np.intp),
    )


def _make_scores(
    model: Any, predictions: NDArray[np.float64], mask: NDArray[np.bool_], order: NDArray[np.intp]
) -> Scores:
    target = model.target_
    probability = None if target.labels is None else target.normalized(predictions)
    return Scores(target.answers(predictions), probability, mask, order)


def explain_rows(
    model: SequentialModel,
    table: Table,
    labels: Sequence[Any],
    policy: Policy,
    draws: RowDraws | None = None,
    starts: Starts | None = None,
    *,
    warn: bool = True,
) -> Explanation:
    """Return one narrative per row.

    Parameters
    ----------
    model : SequentialModel
        Fitted.
    table : Table
        Only cells that the policy reveals are read.
    labels : sequence
        One label per row.
    policy : Policy
    draws : RowDraws, optional
        Random numbers of the sampled policy; None is the greedy policy.
    starts : Starts, optional
    warn : bool, default=True
        Whether to warn about revealed values unlike the training data; the warning quotes them.
    """
    rollouts = model._rollouts(
        table, policy, draws=draws, record=True, starts=starts, owner="explain"
    )
    trace = join_traces([trace for _, trace in rollouts])
    if warn:
        warn_unusual(model.encoder_, table, trace.mask, "explain", labels)
    sampled = draws is not None
    narratives = narrate(model, table, labels, policy, trace, starts, sampled=sampled)
    usual = Given(dict.fromkeys(always_known(policy.inputs, model.encoder_.names)))
    free = all(_same_start(narrative.given or Given(), usual) for narrative in narratives)
    return Explanation(narratives, ModelSource(model, table, policy, sampled, free))


def _same_start(given: Given, usual: Given) -> bool:
    """Whether the same columns are known, with the same limits."""
    return replace(given, known=dict.fromkeys(given.known)) == usual


def narrate(
    model: SequentialModel,
    table: Table,
    labels: Sequence[Any],
    policy: Policy,
    trace: Trace,
    starts: Starts | None = None,
    *,
    sampled: bool = False,
) -> list[Narrative]:
    """Return the narratives of recorded rollouts.

    Parameters
    ----------
    model, table, labels, policy
        As in `explain_rows`.
    trace : Trace
        Recorded.
    starts : Starts, optional
    sampled : bool, default=False
        Whether decisions were drawn at random.
    """
    assert trace.stop_probability is not None
    assert trace.prediction is not None
    assert trace.margin is not None
    n, states = trace.stop_probability.shape
    shown = model.target_.shown(trace.prediction.reshape(n * states, -1)).reshape(n, states, -1)
    names, units, n_steps = model.encoder_.names, model.units_, trace.n_steps
    columns_of = [units.columns_of(u) for u in range(len(units))]
    classes, endings = (
        model.target_.labels,
        stop_reasons(policy, trace, starts, last=model._budget_ending()),
    )
    issuer = ModelIssuer(model, policy)
    # A certificate is for greedy decisions.
    certificate = "" if sampled else model._certificate_sentence()
    description = model._description()
    narratives = []
    for row in range(n):
        predictions = [tuple(float(p) for p in shown[row, t]) for t in range(n_steps[row] + 1)]
        steps = []
        for t in range(n_steps[row]):
            revealed = {
                units.names[unit]: {names[c]: table.value(row, c) for c in columns_of[unit]}
                for unit in trace.order[row, t]
                if unit >= 0
            }
            stop = float(trace.stop_probability[row, t + 1])
            steps.append(Step(revealed, stop, predictions[t], predictions[t + 1]))
        narratives.append(
            Narrative(
                labels[row],
                predictions[0],
                float(trace.stop_probability[row, 0]),
                tuple(steps),
                endings[row],
                classes,
                len(units),
                certificate,
                Origin(issuer, tuple(trace.margin[row, : n_steps[row] + 1].tolist()), sampled),
                description,
                describe_start(starts, table, names, units, row),
                units.visit_cost,
            )
        )
    return narratives


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Concatenate the traces of chunks; each has only as many steps as its longest row."""
    longest = max(t.order.shape[1] for t in traces)
    stops = [t.stop_probability for t in traces if t.stop_probability is not None]
    predictions = [t.prediction for t in traces if t.prediction is not None]
    margins = [t.margin for t in traces if t.margin is not None]
    states = max(s.shape[1] for s in stops)
    return Trace(
        np.concatenate([t.mask for t in traces]),
        np.concatenate([_pad_steps(t.order, longest, -1) for t in traces]),
        np.concatenate([t.cost for t in traces]),
        np.concatenate([_pad_steps(s, states, np.nan) for s in stops]),
        np.concatenate([_pad_steps(p, states, np.nan) for p in predictions]),
        np.concatenate([_pad_steps(m, states, np.nan) for m in margins]),
    )


def _pad_steps(array: NDArray[Any], n_steps: int, fill: float) -> NDArray[Any]:
    """Extend the second axis to ``n_steps``."""
    padding = [(0, 0)] * array.ndim
    padding[1] = (0, n_steps - array.shape[1])
    return np.pad(array, padding, constant_values=fill)


class ModelSource:
    """The model behind an explanation, for its HTML page; implements `Source`.

    Parameters
    ----------
    model : SequentialModel
        Fitted.
    table : Table
        The explained rows.
    policy : Policy
        The policy that the rows were explained with.
    sampled : bool
        Whether decisions were drawn from the policy.
    free : bool, default=True
        Whether the rows started from nothing, or from the columns that the model always knows,
        without unavailable units, costs or a budget.
    """

    def __init__(
        self,
        model: SequentialModel,
        table: Table,
        policy: Policy,
        sampled: bool,
        free: bool = True,
    ) -> None:
        self._model = model
        self._table = table
        self._policy = policy
        self.sampled = sampled
        self._free = free

    def layout(self) -> Layout:
        """Return the columns and units."""
        units, groups = self._model.units_, self._model.groups
        return Layout(
            list(self._model.encoder_.names),
            [(name, units.columns_of(i).tolist()) for i, name in enumerate(units.names)],
            groups.shape if isinstance(groups, Patches) else None,
        )

    def values(self, row: int) -> dict[int, Any]:
        """Return every cell of a row that could be parsed, revealed or not, by column number."""
        table = self._table
        columns = [
            c
            for c in range(len(table.columns))
            if c not in table.invalid or table.invalid[c][row] is None
        ]
        return {c: table.value(row, c) for c in columns}

    def model(self) -> PageModel:
        """Return the model as data that a page can run."""
        if not self._free:
            raise UnsupportedModelError(
                "A page can run the model only for rows that start from nothing, or from the "
                "columns that the model always knows, without unavailable features, costs of "
                "their own or a budget."
            )
        return export_model(self._model, self._policy)

    def take(self, rows: slice) -> ModelSource:
        """Return the source of a subset of the rows."""
        return ModelSource(
            self._model, self._table.take(rows), self._policy, self.sampled, self._free
        )
