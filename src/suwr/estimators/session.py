"""Active feature acquisition: the policy requests the units of a new row one at a time.

Every error names the field, and nothing is accepted by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import suwr
from suwr._utils.text import did_you_mean, plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.costs import read_row_costs
from suwr.data.frame import Table
from suwr.data.parse import EXPECTED, INVALID, describe_cell
from suwr.estimators.fitted import FittedPolicy
from suwr.estimators.limits import (
    RowLimits,
    charge_rows,
    check_limits,
    largest_budget,
    warn_distance,
)
from suwr.exceptions import SessionError
from suwr.narrative.effects import UsualEffect
from suwr.narrative.explanation import Narrative, Step
from suwr.narrative.given import Given
from suwr.narrative.reading import check_scalar, is_number, parse_json, read_given
from suwr.narrative.receipt import Origin
from suwr.nn.rollout import Trace
from suwr.nn.step import Starts, acquire_units

# Incremented when an older suwr would misread a session.
FORMAT = 1
MAX_BYTES = 4 * 2**20
# Characters of a name in an error.
MAX_SHOWN = 80
_FIELDS = ("format", "version", "model", "condition", "given", "answers", "continued", "unused")


class StoredSession(NamedTuple):
    """The fields of a session that determine all others.

    Attributes
    ----------
    model : str
        SHA-256 digest of the model file.
    condition : float or None
        Position of λ in its range, for a model that was fitted for a range.
    given : Given
    answers : tuple of dict
        Values by column that each step observed.
    continued : tuple of int
        Numbers of steps before which a further unit was requested after the policy had stopped.
    unused : dict
        Answers from before a revision that the policy has not requested again.
    """

    model: str
    condition: float | None
    given: Given
    answers: tuple[dict[str, Any], ...]
    continued: tuple[int, ...]
    unused: dict[str, Any]


class InputError(ValueError):
    """A value, a column or a unit that a row cannot have.

    Parameters
    ----------
    field : str
        What is wrong: a column, or 'unavailable'.
    message : str
        Contains no value.
    got : str
        The value in words, for callers who may see it.
    """

    def __init__(self, field: str, message: str, got: str = "") -> None:
        super().__init__(f"{message} Got {got} instead." if got else message)
        self.field, self.message = field, message


# Answers.


def read_value(model: FittedPolicy, name: str, value: Any) -> Any:
    """Parse one value by the type of its column."""
    code = model.codes[name]
    read = code.parse(value)
    if read is INVALID:
        expected = f"The value of {name!r} must be {EXPECTED[code.type]} or missing."
        raise InputError(name, expected, describe_cell(value))
    if isinstance(read, float) and read.is_integer() and abs(read) < 2**53:
        return int(read)
    return read


def check_answer(
    model: FittedPolicy, values: Any, requested: Sequence[str], known: Mapping[str, Any]
) -> None:
    """Raise a ``ValueError`` unless there is a value for every requested column and no other.

    Parameters
    ----------
    model : FittedPolicy
    values : mapping
        Values by column.
    requested : sequence of str
    known : mapping
        Values that are known already.
    """
    expected = f"'values' must have exactly the columns {list(requested)}."
    if not isinstance(values, Mapping):
        raise ValueError(f"{expected} Got {plain_repr(values)} instead.")
    for name in values:
        if name in requested:
            continue
        reason = f"{plain_repr(name)} is not requested"
        if name not in model.names:
            reason = f"the model has no column {plain_repr(name)}"
        elif name in known:
            reason = f"{name!r} has a value already, which revise() can change"
        raise ValueError(f"{expected} Got {plain_repr(list(values))} instead: {reason}.")
    if len(values) < len(requested):
        raise ValueError(f"{expected} Got {list(values)} instead.")


def read_revision(model: FittedPolicy, values: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values of columns that have one, parsed."""
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            "'values' must be a mapping of columns to their new values. "
            f"Got {plain_repr(values)} instead."
        )
    for name in values:
        _check_column(model, name)
        if name not in known:
            raise ValueError(f"{name!r} has no value yet that could be revised.")
    return {name: read_value(model, name, value) for name, value in values.items()}


def check_unit(model: FittedPolicy, unit: Any) -> None:
    """Raise a ``ValueError`` if the model has no such unit."""
    if not isinstance(unit, str) or unit not in model.units.names:
        hint = did_you_mean(unit, model.units.names)
        shown = plain_repr(unit)[:MAX_SHOWN]
        raise InputError("unavailable", f"The model has no unit {shown}.{hint}")


def _check_column(model: FittedPolicy, name: Any) -> None:
    if name not in model.codes:
        shown = plain_repr(name)[:MAX_SHOWN]
        hint = did_you_mean(name, model.names)
        raise InputError(str(name)[:MAX_SHOWN], f"The model has no column {shown}.{hint}")


def make_given(
    model: FittedPolicy,
    known: Mapping[str, Any] | None = None,
    unavailable: Sequence[str] = (),
    max_cost: float | None = None,
    exactly: float | None = None,
    costs: Any = None,
) -> Given:
    """Read what a row is given, which are the arguments of ``acquire``.

    Raises
    ------
    InputError
        A value, a column or a unit is wrong.
    ValueError
        Another argument is.
    """
    if known is not None and not isinstance(known, Mapping):
        expected = "a mapping of columns to their values"
        raise parameter_error("known", "acquire", expected, known)
    for name in known or ():
        _check_column(model, name)
    names = model.always_known
    if known is None and names:
        raise ValueError(
            f"The 'known' parameter of acquire must have the values of {names}, which the model "
            "was trained to know at the start. Pass {} to start from nothing."
        )
    if isinstance(unavailable, str):
        raise parameter_error("unavailable", "acquire", "a list of units", unavailable)
    for unit in dict.fromkeys(unavailable):
        check_unit(model, unit)
        columns = model.units.columns_of(model.units.names.index(unit))
        if all(model.names[c] in (known or {}) for c in columns):
            raise InputError("unavailable", f"{unit!r} is known: it cannot be unavailable.")
    for name, value in (("max_cost", max_cost), ("exactly", exactly)):
        if value is not None and not isinstance(value, Real):
            raise parameter_error(name, "acquire", "a number of at least 0", value)
    # The same checks as for tables. A certified model may start as it always does.
    usual = set(known or ()) == set(names)
    flags = np.isin(model.names, list(known)) if known and not usual else None
    prices = _read_costs(model, costs)
    limits: RowLimits = {
        "known": flags, "max_cost": max_cost, "exactly": exactly, "costs": prices
    }  # fmt: skip
    if check_limits("acquire", limits):
        model.read_starts("acquire", 1, limits)
    limit = max_cost if exactly is None else exactly
    limit = largest_budget(model.policy.inputs) if limit is None else limit
    return Given(
        {name: read_value(model, name, value) for name, value in (known or {}).items()},
        tuple(dict.fromkeys(unavailable)),
        None if limit is None or np.isinf(limit) else float(limit),
        exactly is not None,
        None if prices is None else dict(zip(model.units.names, prices.tolist(), strict=True)),
    )


def _read_costs(model: FittedPolicy, costs: Any) -> NDArray[np.float64] | None:
    """Return the costs of the units of one row; None without any."""
    if costs is None:
        return None
    units = model.units
    if isinstance(costs, Mapping):
        for unit in costs:
            check_unit(model, unit)
        usual = dict(zip(units.names, units.costs.tolist(), strict=True))
        costs = list({**usual, **costs}.values())
    return read_row_costs(costs, units.names, 1, "acquire")[0]


# Stored sessions.


def session_json(session: StoredSession) -> str:
    """Return a session as JSON."""
    state = {
        "format": FORMAT,
        "version": suwr.__version__,
        **session._asdict(),
        "given": session.given.to_dict() if session.given else None,
    }
    return json.dumps(state, ensure_ascii=False, allow_nan=False)


def read_session(text: str | bytes, model: FittedPolicy) -> StoredSession:
    """Read the fields of a session; anything but exactly its fields is refused.

    The answers are only checked for their types. Replaying the session validates them.

    Raises
    ------
    SessionError
    """
    if not isinstance(text, str | bytes):
        raise SessionError(f"A session must be JSON. Got {type(text).__name__} instead.")
    if len(text) > MAX_BYTES:
        raise SessionError(f"The session has more than {MAX_BYTES:,} bytes.")
    try:
        state = parse_json(text if isinstance(text, str) else text.decode())
        stored = _read_fields(state)
        found = model.issuer.model
        if stored.model != found:
            _refuse(
                f"it is of the model {stored.model[:12]}…, not of {found[:12]}…, by the digests of "
                "their files."
            )
        if not model.accepts(stored.condition):
            _refuse("'condition' is not that of the model.")
        given = stored.given
        checked = make_given(
            model, given.known, given.unavailable,
            None if given.exactly else given.max_cost, given.max_cost if given.exactly else None,
            given.costs,
        )  # fmt: skip
        for name in stored.unused:
            _check_column(model, name)
        unused = {name: read_value(model, name, value) for name, value in stored.unused.items()}
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply." if isinstance(error, RecursionError) else error
        raise SessionError(f"The session is invalid: {reason}"[:400]) from None
    return stored._replace(given=checked, unused=unused)


def _refuse(message: str) -> NoReturn:
    raise SessionError(message)


def _read_fields(state: Any) -> StoredSession:
    if type(state) is dict and type(state.get("format")) is int and state["format"] > FORMAT:
        _refuse(f"it has format {state['format']}, which requires a newer suwr.")
    if type(state) is not dict or state.keys() != set(_FIELDS):
        _refuse(f"it must have exactly the fields {', '.join(_FIELDS)}.")
    if type(state["format"]) is not int or state["format"] != FORMAT:
        _refuse(f"'format' must be {FORMAT}.")
    for name in ("version", "model"):
        if type(state[name]) is not str:
            _refuse(f"{name!r} must be text.")
    condition, answers, continued = state["condition"], state["answers"], state["continued"]
    if condition is not None and not (is_number(condition) and -1 <= condition <= 1):
        _refuse("'condition' must be a number in [-1, 1] or null.")
    if type(answers) is not list or not all(type(answer) is dict for answer in answers):
        _refuse("'answers' must list objects.")
    if type(state["unused"]) is not dict:
        _refuse("'unused' must be an object.")
    for values in (*answers, state["unused"]):
        for name, value in values.items():
            if value is not None:
                check_scalar(value, f"the value of {name[:40]!r}")
    n = len(answers)
    if type(continued) is not list or not all(type(i) is int and 0 <= i <= n for i in continued):
        _refuse("'continued' must list numbers of steps.")
    given = Given() if state["given"] is None else read_given(state["given"])
    return StoredSession(
        state["model"],
        None if condition is None else float(condition),
        given,
        tuple(answers),
        tuple(continued),
        state["unused"],
    )


@dataclass
class _Run:
    """What has happened in a session, and the current decision."""

    given: Given
    starts: Starts | None
    answers: list[dict[str, Any]] = field(default_factory=list)  # of each step
    unused: dict[str, Any] = field(default_factory=dict)  # answers from before a revision
    continued: set[int] = field(default_factory=set)  # steps before which `go_on` was called
    steps: list[Step] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=lambda: [0.0])  # before each step
    start: tuple[float, tuple[float, ...]] = (0.0, ())  # stop probability and prediction
    state: tuple[float, tuple[float, ...]] = (0.0, ())
    best: list[int] = field(default_factory=list)
    requested: list[int] = field(default_factory=list)
    requested_cost: float = 0.0
    alternatives: dict[str, float] = field(default_factory=dict)
    exhausted: bool = False


class Acquisition:
    """A session that requests features one unit at a time; ``acquire`` starts it.

    Its decisions are exactly those that ``explain`` reports for the complete row. A method that
    raises an exception leaves the session as it was.

    Attributes
    ----------
    description : suwr.data.descriptions.TableDescription
        How columns, units and values are worded.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import Acquisition, SUWRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> session = clf.acquire(max_cost=2)
    >>> while not session.done:
    ...     _ = session.observe({name: 1.5 for name in session.next_columns})
    >>> session.cost <= 2
    True
    >>> Acquisition.from_json(session.to_json(), clf).known == session.known
    True
    """

    def __init__(self, fitted: FittedPolicy, given: Given | None = None) -> None:
        self._model, self._policy = fitted, fitted.policy
        self.description = fitted.description
        given = given or Given()
        self._run = _Run(given, fitted.starts_of([given]))
        self._evaluate()
        self._run.start = self._run.state

    @property
    def given(self) -> Given:
        """Values known at the start, unavailable units, and the budget."""
        return self._run.given

    @property
    def next_unit(self) -> str | None:
        """The unit to acquire next; None if the policy has stopped."""
        return " + ".join(self.next_units) or None

    @property
    def next_units(self) -> tuple[str, ...]:
        """The requested units; several if steps reveal several; see `Costs`."""
        return tuple(self._model.units.names[u] for u in self._run.requested)

    @property
    def next_columns(self) -> tuple[str, ...]:
        """The columns that the next call of `observe` must provide."""
        known = self.known
        names = (name for u in self._run.requested for name in self._columns_of(u))
        return tuple(dict.fromkeys(name for name in names if name not in known))

    @property
    def done(self) -> bool:
        """Whether the policy has stopped."""
        return self.next_unit is None

    @property
    def known(self) -> dict[str, Any]:
        """The values by column: those known at the start, and the observed ones."""
        answers = (answer.items() for answer in self._run.answers)
        return {**self.given.known, **{name: value for part in answers for name, value in part}}

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._run.steps)

    @property
    def cost(self) -> float:
        """Cost of the acquired units, of set-ups and of visits."""
        number, steps = self._model.units.names.index, self._run.steps
        order = np.full((1, len(steps), self._policy.units_per_step), -1, dtype=np.intp)
        for position, step in enumerate(steps):
            order[0, position, : len(step.units)] = [number(unit) for unit in step.units]
        return float(charge_rows(self._model.units, [order], self._run.starts)[0])

    @property
    def next_cost(self) -> float:
        """Cost of acquiring the requested units; 0 if the policy has stopped."""
        return 0.0 if self.done else self._run.requested_cost

    @property
    def next_usual(self) -> UsualEffect | None:
        """How often acquiring the requested unit moves the prediction; see `Step.usual`."""
        step = len(self._run.steps) + 1
        return None if self.done else self._model.usual(self._run.requested, step)

    @property
    def next_alternatives(self) -> dict[str, float]:
        """Units that the policy might as well have requested; see `Step.alternatives`."""
        return {} if self.done else self._run.alternatives

    @property
    def prediction(self) -> NDArray[np.float64] | float:
        """Class probabilities, or the predicted value, given the observations so far."""
        values = np.array(self._run.state[1])
        return values if self._model.target.labels is not None else float(values[0])

    @property
    def stop_probability(self) -> float:
        """ζ_stop in the current state."""
        return self._run.state[0]

    def warn_distance(self) -> None:
        """Warn if the known values start the session in a state that training has not visited."""
        warn_distance(self._policy, self._encoded()[0], self._run.starts, "acquire")

    def observe(self, values: Mapping[str, Any]) -> Acquisition:
        """Provide the values of the requested unit.

        Parameters
        ----------
        values : mapping
            From every column of ``next_columns``, and no other, to its value. None and NaN mean
            that the value is not available.

        Returns
        -------
        self
        """
        self._observe(values)
        while (
            self._run.unused and not self.done and self._run.unused.keys() >= set(self.next_columns)
        ):
            self._observe({name: self._run.unused.pop(name) for name in self.next_columns})
        return self

    def _observe(self, values: Mapping[str, Any]) -> None:
        if self.done:
            raise ValueError("The policy has stopped: no unit is requested.")
        check_answer(self._model, values, self.next_columns, self.known)
        read = {name: read_value(self._model, name, values[name]) for name in self.next_columns}
        before, requested, cost = self._run.state[1], self._run.requested, self._run.requested_cost
        usual, alternatives = self.next_usual, self.next_alternatives
        self._run.answers.append(read)
        self._run.spent.append(self._run.spent[-1] + cost)
        self._evaluate()
        known = self.known
        revealed = {
            self._model.units.names[u]: {name: known[name] for name in self._columns_of(u)}
            for u in requested
        }
        self._run.steps.append(
            Step(revealed, self._run.state[0], before, self._run.state[1], usual, alternatives)
        )

    def revise(self, values: Mapping[str, Any]) -> Acquisition:
        """Change answers that were given before.

        The session is replayed from there. Later answers are used again wherever the policy still
        requests them; the others are kept until it does.

        Parameters
        ----------
        values : mapping
            From columns of ``known`` to their new values.

        Returns
        -------
        self
        """
        known = self.known
        new = read_revision(self._model, values, known)
        start = {name: new.get(name, value) for name, value in self.given.known.items()}
        changed = [
            n for n, answer in enumerate(self._run.answers) if not new.keys().isdisjoint(answer)
        ]
        first = min(changed, default=0) if start == self.given.known else 0
        self._run = self._replayed(
            replace(self.given, known=start),
            {**self._run.unused, **known, **new},
            {n for n in self._run.continued if n <= first},
        )._run
        return self

    def unavailable(self, unit: str) -> Acquisition:
        """State that a unit cannot be acquired; the policy goes on with the best of the rest.

        This is leak-free as long as it does not depend on values that are not revealed.

        Parameters
        ----------
        unit : str
            A unit that is not revealed: the requested one, or any other.

        Returns
        -------
        self
        """
        check_unit(self._model, unit)
        if unit in self.given.unavailable:
            return self
        columns = self._columns_of(self._model.units.names.index(unit))
        if any(unit in step.units for step in self._run.steps) or set(columns) <= set(self.known):
            raise ValueError(f"{unit!r} is revealed already: it cannot be unavailable.")
        given = replace(self.given, unavailable=(*self.given.unavailable, unit))
        answers = {**self._run.unused, **self.known}
        self._run = self._replayed(given, answers, self._run.continued)._run
        return self

    def undo(self) -> Acquisition:
        """Undo the last observation.

        Returns
        -------
        self
        """
        if not self._run.steps:
            raise ValueError("There is no observation to undo.")
        for history in (self._run.steps, self._run.answers, self._run.spent):
            history.pop()
        self._run.continued = {n for n in self._run.continued if n < len(self._run.steps)}
        self._run.unused = {}
        self._evaluate()
        return self

    def go_on(self) -> Acquisition:
        """Request one more unit after the policy has stopped.

        The selection policy chooses it from the current state.

        Returns
        -------
        self
        """
        if not self.done:
            raise ValueError("The policy has not stopped: it has requested a unit.")
        if len(self._run.steps) >= self._model.policy.max_steps or self._run.exhausted:
            raise ValueError("No unit is left to request within 'max_steps'.")
        self._run.continued.add(len(self._run.steps))
        self._run.requested = self._run.best
        return self

    def narrative(self, row: int | str = "asked") -> Narrative:
        """Return the steps so far.

        Parameters
        ----------
        row : int or str, default="asked"
            Label of the row.
        """
        model, given = self._model, self.given or None
        # A certificate is for rows that start as in training and stop where the policy does.
        known = {} if given is None else given.known
        always = model.always_known
        usual = set(known) == set(always) and (given or Given()) == Given(known)
        free = usual and not self._run.continued
        return Narrative(
            row, self._run.start[1], self._run.start[0], tuple(self._run.steps),
            self._ending() if self.done else "open",
            model.target.labels, len(model.units), model.guarantee if free else "",
            Origin(self._model.issuer, tuple(self._run.margins)), self.description, given,
            model.units.visit_cost,
        )  # fmt: skip

    def to_json(self) -> str:
        """Return the session as JSON, for `from_json`; it contains the answers."""
        return session_json(
            StoredSession(
                self._model.issuer.model,
                self._policy.condition,
                self.given,
                tuple(self._run.answers),
                tuple(sorted(self._run.continued)),
                self._run.unused,
            )
        )

    @classmethod
    def from_json(cls, text: str | bytes, model: Any) -> Acquisition:
        """Restore a session; every answer is validated, and every decision is made again.

        Parameters
        ----------
        text : str or bytes
            The output of `to_json`.
        model : estimator
            The fitted model that the session was started with.

        Raises
        ------
        suwr.exceptions.SessionError
            The text is not a session, or not one of this model.
        """
        fitted = model.fitted_policy()
        stored = read_session(text, fitted)
        fitted = fitted if stored.condition is None else fitted.at(stored.condition)
        session = cls(fitted, stored.given)
        for number, answer in enumerate((*stored.answers, None), start=1):
            try:
                if number - 1 in stored.continued:
                    session.go_on()
                if answer is not None:
                    session.observe(answer)
            except ValueError as error:
                raise SessionError(f"The session is invalid at step {number}: {error}") from None
        session._run.unused = stored.unused
        return session

    # Replays.

    def _replayed(
        self, given: Given, answers: Mapping[str, Any], continued: Iterable[int]
    ) -> Acquisition:
        """Return a session with these answers, as far as the policy requests them."""
        fresh, left = Acquisition(self._model, given), dict(answers)
        for name in given.known:
            left.pop(name, None)
        steps = set(continued)
        while True:
            n = len(fresh._run.steps)
            if (
                fresh.done
                and n in steps
                and n < self._model.policy.max_steps
                and not fresh._run.exhausted
            ):
                fresh.go_on()
            if fresh.done or not left.keys() >= set(fresh.next_columns):
                fresh._run.unused = left
                return fresh
            fresh.observe({name: left.pop(name) for name in fresh.next_columns})

    def _columns_of(self, unit: int) -> tuple[str, ...]:
        names = self._model.names
        return tuple(names[c] for c in self._model.units.columns_of(unit))

    # Decisions.

    def _ending(self) -> str:
        trace = Trace(
            self._encoded()[1].cpu().numpy(),
            np.zeros((1, len(self._run.steps), 1), dtype=np.intp),
            np.array(self._run.spent[-1:]),
        )
        return self._model.stop_reasons(trace, self._run.starts)[0]

    def _encoded(self) -> tuple[Tensor, Tensor]:
        """The encoded row and its mask."""
        model, known = self._model, self.known
        columns: list[NDArray[Any]] = []
        for name, code in zip(model.names, model.encoder.codes, strict=True):
            value = known.get(name)
            if code.categories is None:
                columns.append(np.array([np.nan if value is None else float(value)]))
            else:
                columns.append(np.array([value], dtype=object))
        values = model.encode(Table(columns, 1))
        mask = [[name in known for name in model.names]]
        return values, torch.tensor(mask, device=values.device)

    def _evaluate(self) -> None:
        """Evaluate the policy and the predictor in the current state."""
        model, policy, n_steps = self._model, self._policy, len(self._run.answers)
        values, mask = self._encoded()
        spent = torch.tensor(self._run.spent[-1:], dtype=torch.float64, device=values.device)
        with torch.inference_mode():
            decision = policy.decide(values, mask, starts=self._run.starts, spent=spent)
            prediction = policy.predict(values, mask).cpu().numpy()
            best, revealed = acquire_units(
                policy.inputs, decision, mask, policy.units_per_step, None, self._run.starts, spent
            )
        full = n_steps >= policy.max_steps
        probability = 1.0 if full else float(decision.stop_probability[0])
        margin = float("inf") if full else float(decision.margin(policy.units_per_step)[0])
        self._run.margins[n_steps:] = [margin]
        self._run.exhausted = not bool(decision.available.any())
        shown = model.target.shown(prediction)[0]
        self._run.state = (probability, tuple(float(p) for p in shown))
        self._run.best = [u for u in best[0].tolist() if u >= 0]
        self._run.requested_cost = float(revealed.cost[0])
        found = decision.alternatives(best)
        self._run.alternatives = model.alternatives(
            found.units[0].cpu().numpy(), found.odds[0].cpu().numpy()
        )
        self._run.requested = [] if probability >= 0.5 else self._run.best
