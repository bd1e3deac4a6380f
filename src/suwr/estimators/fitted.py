"""`FittedPolicy`: a policy with all that turns rows of the user into decisions and narratives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr._utils.draws import RowDraws
from suwr.data.descriptions import (
    TableDescription,
    describe_table,
    resolve_columns,
    warn_unusual,
)
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.frame import Table
from suwr.data.units import Patches, Units
from suwr.estimators.container import ModelIssuer
from suwr.estimators.export import export_model
from suwr.estimators.limits import (
    RowLimits,
    always_known,
    describe_start,
    largest_budget,
    read_starts,
    starts_of,
    stop_reasons,
    warn_distance,
)
from suwr.estimators.risks import Certificate
from suwr.estimators.targets import Target
from suwr.exceptions import ModelFileError, UnsupportedModelError
from suwr.narrative.effects import StepEffects, UsualEffect
from suwr.narrative.explanation import Explanation, Layout, Narrative, PageModel, Step
from suwr.narrative.given import Given
from suwr.narrative.receipt import Origin
from suwr.nn.rollout import Policy, Trace
from suwr.nn.step import Starts

# Rows that are encoded and evaluated at a time.
CHUNK = 65_536


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


@dataclass(frozen=True)
class FittedPolicy:
    """A policy at one λ with the encoding, the units and the target of its model.

    Attributes
    ----------
    policy : Policy
    encoder : TableEncoder
    units : Units
    target : Target
    groups : object
        The parameter ``groups`` of the model.
    columns : mapping or None
        The parameter ``columns`` of the model.
    owner : str
        The class of the model, for errors.
    certificate : Certificate or None
    read : callable
        Parses a table of the user, given labels of its rows for errors.
    file_digest : callable
        Returns the SHA-256 digest of the model file.
    gain_unit : float
        What training has scaled the gain of continuing by.
    effects : StepEffects or None
        How often steps move predictions of held-out rows.
    target_name : str or None
    """

    policy: Policy
    encoder: TableEncoder
    units: Units
    target: Target
    groups: Any
    columns: Mapping[str, Any] | None
    owner: str
    certificate: Certificate | None
    read: Callable[..., Table]
    file_digest: Callable[[], str]
    gain_unit: float = 1.0
    effects: StepEffects | None = None
    target_name: str | None = None

    def at(self, condition: float) -> FittedPolicy:
        """Return the policy at another position of λ in its range."""
        return replace(self, policy=self.policy.at(condition))

    def accepts(self, condition: float | None) -> bool:
        """Whether a receipt or a session may state this position of λ.

        That of a budget follows from the budget, and a certificate is for one λ.
        """
        own = self.policy.condition
        fixed = self.certificate is not None or self.policy.inputs.budgets is not None
        return condition == own if fixed else (condition is None) == (own is None)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.encoder.names

    @cached_property
    def codes(self) -> dict[str, ColumnCode]:
        """The encoding of each column by its name."""
        return dict(zip(self.names, self.encoder.codes, strict=True))

    @cached_property
    def description(self) -> TableDescription:
        """How columns, units and values are worded."""
        target = self.target_name, self.target.labels
        columns = resolve_columns(self.columns, self.encoder, self.owner, *target)
        return describe_table(self.encoder, self.units, self.groups, columns, *target)

    @cached_property
    def issuer(self) -> ModelIssuer:
        """What receipts state about the model."""
        return ModelIssuer(self.file_digest, self.policy, self.certificate)

    @cached_property
    def always_known(self) -> list[str]:
        """The columns that training knows at the start of every row."""
        return always_known(self.policy.inputs, self.names)

    @property
    def guarantee(self) -> str:
        """The guarantee of the model in one sentence; '' if it has none."""
        return "" if self.certificate is None else self.certificate.sentence

    @property
    def last(self) -> str:
        """How a narrative ends after the maximum number of steps; see `Narrative.ended`."""
        abstains = self.certificate is not None and self.certificate.abstain
        return "abstained" if abstains else "budget"

    def read_starts(
        self, owner: str, n_rows: int, limits: RowLimits, order: NDArray[np.intp] | None = None
    ) -> Starts:
        """Read where rows start and what they may acquire; see `suwr.estimators.limits`."""
        if self.certificate is not None:
            raise ValueError(
                f"{owner} cannot take 'known', 'available', 'max_cost', 'exactly' or 'costs', "
                "because the model is certified for one policy on whole rows. Use the model that "
                "it was made from."
            )
        return read_starts(self.policy, self.names, self.units, owner, n_rows, limits, order)

    def starts_of(self, given: Sequence[Given]) -> Starts | None:
        """Return the starts of rows by name; None if they start from nothing without limits."""
        if not any(given) and largest_budget(self.policy.inputs) is None:
            return None
        return starts_of(self.policy.inputs, self.names, self.units, given)

    def encode(self, table: Table) -> Tensor:
        """Encode a table; call `Table.check_revealed` before the result of a revealed cell is used.

        Invalid cells are NaN, so that a forgotten check cannot give a plausible result.
        """
        return torch.as_tensor(self.encoder.encode(table), device=self.policy.device)

    def rollouts(
        self,
        table: Table,
        *,
        draws: RowDraws | None = None,
        record: bool = False,
        starts: Starts | None = None,
        owner: str = "",
    ) -> Iterator[tuple[Tensor, Trace]]:
        """Yield encoded rows and their rollouts, in chunks of bounded size.

        ``owner`` is the method that may warn that ``starts`` are unlike training.

        A cell that could not be parsed is an error if the rollout has revealed it. Its row stops
        there, since no probability is at least one half or less if the inputs are NaN.
        """
        policy, first = self.policy, 0
        starts = starts or Starts.usual(policy.inputs, table.n_rows)
        for rows in chunks(table):
            values = self.encode(rows)
            chunk = slice(first, first + rows.n_rows)
            here = None if starts is None else starts[chunk]
            drawn = None if draws is None else draws[chunk]
            trace = policy.rollout(values, draws=drawn, record=record, starts=here)
            rows.check_revealed(trace.mask)
            if owner and first == 0:
                warn_distance(policy, values, here, owner)
            first += rows.n_rows
            yield values, trace

    def predict(self, values: Tensor, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Predict encoded rows from the cells of a mask, in the units of the user."""
        shown = torch.as_tensor(mask, device=values.device)
        return _numbers(self.target.shown(self.policy.predict(values, shown).cpu().numpy()))

    def decide(self, table: Table, masks: NDArray[np.bool_]) -> Decisions:
        """Evaluate policy and predictor on masked rows, of which hidden cells are not read."""
        table.check_revealed(masks)
        values = self.encode(table)
        with torch.inference_mode():
            decision = self.policy.decide(values, torch.as_tensor(masks, device=values.device))
        return Decisions(
            decision.stop_probability.cpu().numpy().astype(np.float64),
            decision.best(self.policy.units_per_step).cpu().numpy(),
            self.predict(values, masks),
        )

    def expected_gain(self, gain: float) -> float | None:
        """Return the expected reduction of the loss by continuing, less the costs.

        In units of the loss of the best constant prediction; None if the policy stops otherwise.
        ``gain`` is `Decision.gain`, which training has scaled.
        """
        return gain / self.gain_unit if self.policy.stops_by_gain else None

    def scores(self, X: Any, rows: Sequence[Any] | None = None) -> Scores:
        """Return what ``predict``, ``predict_proba`` and ``select`` return, bit for bit.

        ``rows`` are labels of the rows, for errors. Masks have the order of the columns in ``fit``.
        """
        outputs, masks, orders = [], [], []
        for values, trace in self.rollouts(self.read(X, rows)):
            outputs.append(self.predict(values, trace.mask))
            masks.append(trace.mask)
            orders.append(trace.order)
        longest = max(o.shape[1] for o in orders)
        order = np.concatenate([_pad_steps(o, longest, -1) for o in orders])
        return self._scores(np.concatenate(outputs), np.concatenate(masks), order)

    def no_scores(self) -> Scores:
        """Return the scores of a table without rows."""
        return self._scores(
            np.zeros((0, self.target.n_outputs)),
            np.zeros((0, len(self.names)), dtype=bool),
            np.zeros((0, 0, self.policy.units_per_step), dtype=np.intp),
        )

    def _scores(
        self, shown: NDArray[np.float64], mask: NDArray[np.bool_], order: NDArray[np.intp]
    ) -> Scores:
        probability = None if self.target.labels is None else self.target.normalized(shown)
        return Scores(self.target.answers(shown), probability, mask, order)

    def explain(
        self,
        table: Table,
        labels: Sequence[Any],
        draws: RowDraws | None = None,
        starts: Starts | None = None,
        *,
        warn: bool = True,
    ) -> Explanation:
        """Return one narrative per row.

        Parameters
        ----------
        table : Table
            Only cells that the policy reveals are read.
        labels : sequence
            One label per row.
        draws : RowDraws, optional
            Random numbers of the sampled policy; None is the greedy policy.
        starts : Starts, optional
        warn : bool, default=True
            Whether to warn about revealed values unlike the training data; the warning quotes them.
        """
        found = self.rollouts(table, draws=draws, record=True, starts=starts, owner="explain")
        trace = join_traces([trace for _, trace in found])
        if warn:
            warn_unusual(self.encoder, table, trace.mask, "explain", labels)
        sampled = draws is not None
        narratives = self.narrate(table, labels, trace, starts, sampled=sampled)
        usual = Given(dict.fromkeys(self.always_known))
        free = all(_same_start(narrative.given or Given(), usual) for narrative in narratives)
        return Explanation(narratives, ModelSource(self, table, sampled, free))

    def shown_states(self, trace: Trace) -> NDArray[np.float64]:
        """Return the recorded predictions in the units of the user, (n, n_states, n_outputs)."""
        assert trace.prediction is not None
        n, states, width = trace.prediction.shape
        return self.target.shown(trace.prediction.reshape(n * states, width)).reshape(n, states, -1)

    def usual(self, units: Sequence[int], step: int) -> UsualEffect | None:
        """Return how often a step that reveals these units usually moves the prediction."""
        return None if self.effects is None else self.effects.usual(int(units[0]), step)

    def alternatives(self, units: NDArray[np.intp], odds: NDArray[np.float32]) -> dict[str, float]:
        """Return the units that the policy might as well have chosen; see `Step`."""
        pairs = zip(units.tolist(), odds.tolist(), strict=True)
        return {self.units.names[unit]: p for unit, p in pairs if unit >= 0}

    def stop_reasons(self, trace: Trace, starts: Starts | None = None) -> list[str]:
        """Return why each rollout ended; see `Narrative.ended`."""
        return stop_reasons(self.policy, trace, starts, last=self.last)

    def narrate(
        self,
        table: Table,
        labels: Sequence[Any],
        trace: Trace,
        starts: Starts | None = None,
        *,
        sampled: bool = False,
    ) -> list[Narrative]:
        """Return the narratives of recorded rollouts; for the parameters, see `explain`."""
        assert trace.stop_probability is not None
        assert trace.margin is not None
        assert trace.alternatives is not None
        assert trace.odds is not None
        shown, names, units, n_steps = (
            self.shown_states(trace),
            self.names,
            self.units,
            trace.n_steps,
        )
        reached = np.arange(shown.shape[1]) <= n_steps[:, None]
        for part in (shown, trace.stop_probability):
            _numbers(part[reached])
        columns_of = [units.columns_of(u) for u in range(len(units))]
        endings = self.stop_reasons(trace, starts)
        # A certificate is for greedy decisions.
        guarantee = "" if sampled else self.guarantee
        narratives = []
        for row in range(table.n_rows):
            predictions = [tuple(float(p) for p in shown[row, t]) for t in range(n_steps[row] + 1)]
            steps = []
            for t in range(n_steps[row]):
                revealed = {
                    units.names[unit]: {names[c]: table.value(row, c) for c in columns_of[unit]}
                    for unit in trace.order[row, t]
                    if unit >= 0
                }
                stop = float(trace.stop_probability[row, t + 1])
                usual = self.usual(trace.order[row, t], t + 1)
                might = self.alternatives(trace.alternatives[row, t], trace.odds[row, t])
                steps.append(Step(revealed, stop, predictions[t], predictions[t + 1], usual, might))
            margins = tuple(trace.margin[row, : n_steps[row] + 1].tolist())
            narratives.append(
                Narrative(
                    labels[row],
                    predictions[0],
                    float(trace.stop_probability[row, 0]),
                    tuple(steps),
                    endings[row],
                    self.target.labels,
                    len(units),
                    guarantee,
                    Origin(self.issuer, margins, sampled),
                    self.description,
                    describe_start(starts, table, names, units, row),
                    units.visit_cost,
                )
            )
        return narratives


def _numbers(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return what follows from revealed cells, which is NaN only if the networks overflow."""
    if np.isnan(outputs).any():
        raise ModelFileError(
            "The results of the model are not numbers, since its weights are too large."
        )
    return outputs


def chunks(table: Table) -> Iterator[Table]:
    """Yield the rows in chunks of bounded size."""
    for start in range(0, table.n_rows, CHUNK):
        yield table.take(slice(start, start + CHUNK))


def _same_start(given: Given, usual: Given) -> bool:
    """Whether the same columns are known, with the same limits."""
    return replace(given, known=dict.fromkeys(given.known)) == usual


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Concatenate the traces of chunks; each has only as many steps as its longest row."""
    longest = max(t.order.shape[1] for t in traces)
    stops = [t.stop_probability for t in traces if t.stop_probability is not None]
    predictions = [t.prediction for t in traces if t.prediction is not None]
    margins = [t.margin for t in traces if t.margin is not None]
    others = [t.alternatives for t in traces if t.alternatives is not None]
    odds = [t.odds for t in traces if t.odds is not None]
    states = max(s.shape[1] for s in stops)
    return Trace(
        np.concatenate([t.mask for t in traces]),
        np.concatenate([_pad_steps(t.order, longest, -1) for t in traces]),
        np.concatenate([t.cost for t in traces]),
        np.concatenate([_pad_steps(s, states, np.nan) for s in stops]),
        np.concatenate([_pad_steps(p, states, np.nan) for p in predictions]),
        np.concatenate([_pad_steps(m, states, np.nan) for m in margins]),
        None,
        np.concatenate([_pad_steps(a, longest, -1) for a in others]),
        np.concatenate([_pad_steps(o, longest, np.nan) for o in odds]),
    )


def _pad_steps(array: NDArray[Any], n_steps: int, fill: float) -> NDArray[Any]:
    """Extend the second axis to ``n_steps``."""
    padding = [(0, 0)] * array.ndim
    padding[1] = (0, n_steps - array.shape[1])
    return np.pad(array, padding, constant_values=fill)


@dataclass(frozen=True)
class ModelSource:
    """The model behind an explanation, for its HTML page; implements `Source`.

    Parameters
    ----------
    fitted : FittedPolicy
        The policy that the rows were explained with.
    table : Table
        The explained rows.
    sampled : bool
        Whether decisions were drawn from the policy.
    free : bool
        Whether the rows started from nothing, or from the columns that the model always knows,
        without unavailable units, costs or a budget.
    """

    fitted: FittedPolicy
    table: Table
    sampled: bool
    free: bool

    def layout(self) -> Layout:
        """Return the columns and units."""
        units, groups = self.fitted.units, self.fitted.groups
        return Layout(
            list(self.fitted.names),
            [(name, units.columns_of(i).tolist()) for i, name in enumerate(units.names)],
            groups.shape if isinstance(groups, Patches) else None,
        )

    def values(self, row: int) -> dict[int, Any]:
        """Return every cell of a row that could be parsed, revealed or not, by column number."""
        table = self.table
        columns = [
            c
            for c in range(len(table.columns))
            if c not in table.invalid or table.invalid[c][row] is None
        ]
        return {c: table.value(row, c) for c in columns}

    def model(self) -> PageModel:
        """Return the model as data that a page can run."""
        if not self.free:
            raise UnsupportedModelError(
                "A page can run the model only for rows that start from nothing, or from the "
                "columns that the model always knows, without unavailable features, costs of "
                "their own or a budget."
            )
        fitted = self.fitted
        return export_model(
            fitted.policy, fitted.encoder, fitted.target, fitted.issuer, fitted.last, fitted.effects
        )

    def take(self, rows: slice) -> ModelSource:
        """Return the source of a subset of the rows."""
        return replace(self, table=self.table.take(rows))
