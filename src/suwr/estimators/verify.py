"""Verification of receipts and certificates, and a test that replaces unrevealed cells.

Receipts are replayed in batches, by the rollout that ``explain`` uses. Cells that a receipt does
not reveal are missing; the rollout reads one only after a decision that differs from the receipt,
and nothing is compared after such a decision.

The numbers of a certificate are computed again from the calibration rows.

Cells are replaced in the raw table, before any of them is parsed.
"""

from __future__ import annotations

import datetime
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

import suwr
from suwr._utils.text import printable
from suwr.data.frame import Table, column_names, is_frame, raw_columns, select_columns
from suwr.data.parse import EXPECTED, is_missing
from suwr.estimators.base import SUWRModel
from suwr.estimators.certify import recompute
from suwr.estimators.files import load
from suwr.estimators.fitted import FittedPolicy, join_traces
from suwr.estimators.limits import largest_budget
from suwr.estimators.risks import RISKS, RiskFunction
from suwr.exceptions import ReceiptError
from suwr.narrative.given import Given
from suwr.narrative.reading import TOLERANCE, canonical_json
from suwr.narrative.receipt import Receipt
from suwr.nn.rollout import Trace
from suwr.nn.step import Starts


@dataclass(frozen=True)
class Verification:
    """The result of verifying a receipt or a certificate; true if it is verified.

    Attributes
    ----------
    verified : bool
        Whether the replay gives the same decisions and, within the tolerance, the same numbers.
    reason : str
        Why it is not verified; empty if it is.
    step : int or None
        The step at which the replay differs: 0 is the state before the first step. None if the
        receipt was refused before the replay.
    exact : bool
        Whether numbers were compared bit for bit, because version and environment are equal.
    near_ties : tuple of int
        Steps after which a decision is within rounding of another one.

    Examples
    --------
    >>> from suwr.estimators.verify import Verification
    >>> print(Verification(False, "the policy reveals 'age', the receipt 'income'.", 2))
    differs at step 2: the policy reveals 'age', the receipt 'income'.
    """

    verified: bool
    reason: str = ""
    step: int | None = None
    exact: bool = False
    near_ties: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.verified

    def __str__(self) -> str:
        if self.verified:
            places = ", ".join(map(str, self.near_ties))
            note = f"; the decision after step {places} is within rounding of a tie"
            return f"verified{note if self.near_ties else ''}"
        if self.step is None:
            return f"refused: {self.reason}"
        place = f"at step {self.step}" if self.step else "before the first step"
        return f"differs {place}: {self.reason}"


def verify(receipt: Receipt | Mapping[str, Any] | str | bytes, model: Any) -> Verification:
    """Replay every decision of a receipt from the revealed values alone.

    Parameters
    ----------
    receipt : Receipt, str, bytes or dict
        A receipt, its JSON, or its JSON as a library has parsed it.
    model : SUWRClassifier, SUWRRegressor or path
        The fitted model, or its file.

    Returns
    -------
    Verification
        ``bool(result)`` says whether the receipt is verified and ``str(result)`` why not. A text
        that is no receipt is not verified either. `suwr.estimators.verify.Verifier` verifies
        many receipts of one model in batches.

    Examples
    --------
    >>> import json
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, verify
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> receipt = clf.explain(X[:1])[0].receipt()
    >>> bool(verify(receipt, clf))
    True
    >>> print(verify({**json.loads(receipt.to_json()), "row": 1}, clf))
    refused: The receipt is invalid: it was altered: its digest does not match its content.
    """
    return Verifier(model).verify([receipt])[0]


# Numbers of a certificate, which have rounding errors, and what is compared exactly.
_NUMBERS = ("empirical_risk", "p_value", "mean_cost", "full_cost", "answered", "empty_risk")
_COUNTS = ("n_rows", "classes", "class_names", "class_kind", "groups", "steps", "needs_nothing")


def verify_certificate(
    model: SUWRModel | str | os.PathLike[str],
    X_cal: Any,
    y_cal: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    risk: RiskFunction | None = None,
) -> Verification:
    """Compute a certificate again from its calibration rows, and compare every number.

    Parameters
    ----------
    model : SUWRClassifier, SUWRRegressor or path
        The certified model, or its file.
    X_cal, y_cal, groups
        What `SUWRClassifier.certify` was given, with the rows in the same order.
    risk : callable, optional
        The function, if the risk is one.

    Returns
    -------
    Verification
        A certificate without the digest of the outcomes, as earlier versions wrote it, is not
        verified. A verified one shows that its policy passes its test on these rows, not that rows,
        risk and policy were chosen before any results were seen.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from suwr import SUWRClassifier, verify_certificate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X[:300], y[:300])
    >>> certified = clf.certify(X[300:], level=0.2)
    >>> print(verify_certificate(certified, X[300:]))
    verified
    >>> print(verify_certificate(certified, X[301:]))
    refused: on these rows, 'n_rows' is 268, but the certificate states 269.
    """
    model = load(model) if isinstance(model, str | os.PathLike) else model
    check_is_fitted(model, "policy_")
    fitted = model.fitted_policy()
    stated = fitted.certificate
    if stated is None:
        raise ValueError(f"This {type(model).__name__} has no certificate: use 'certify'.")
    if stated.outcomes is None:
        return Verification(
            False,
            "the certificate cannot be checked: it does not contain the digest of the outcomes, "
            "which earlier versions of suwr did not record.",
        )
    if risk is None and stated.risk not in RISKS:
        raise ValueError(
            f"The risk of the certificate is a function: pass {printable(stated.risk)} as 'risk'."
        )
    found = recompute(fitted, stated, X_cal, y_cal, groups, risk)
    # A model that reveals everything claims nothing about the rows.
    counts, numbers = ((), _NUMBERS[:1]) if stated.reveals_everything else (_COUNTS, _NUMBERS)
    for name in (*counts, *numbers):
        one, two = getattr(found, name), getattr(stated, name)
        if name in numbers and None not in (one, two):
            # A p-value multiplies the rounding error of the mean loss by the number of rows.
            relative, absolute = (1e-3, 0.0) if name == "p_value" else (TOLERANCE, 1e-7)
            same = bool(np.isclose(one, two, rtol=relative, atol=absolute))
        else:
            same = one == two
        if not same:
            reason = f"on these rows, {name!r} is {one!r}, but the certificate states {two!r}."
            return Verification(False, reason[:300])
    if found.p_value > 1 - stated.confidence:
        return Verification(
            False, f"the test fails on these rows: its p-value is {found.p_value:.3g}."
        )
    if found.outcomes != stated.outcomes:
        return Verification(False, "the outcomes of these rows are not those of the certificate.")
    return Verification(True)


class Replay(NamedTuple):
    """The rollout of a receipt's values.

    Attributes
    ----------
    problem : (int, str) or None
        The first step with a cell that is not of the model, and what is wrong with it.
    order, stops, predictions, margins : list
        As in `suwr.nn.rollout.Trace`, with predictions on the scale of the target.
    ended : str
        As in `suwr.Narrative`.
    """

    problem: tuple[int, str] | None
    order: list[list[int]]
    stops: list[float]
    predictions: list[list[float]]
    margins: list[float]
    ended: str

    def units(self, number: int, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the units that are revealed after ``number`` steps."""
        numbers = self.order[number] if number < len(self.order) else []
        return tuple(names[unit] for unit in numbers if unit >= 0)


class Verifier:
    """Verifies receipts of one model.

    Parameters
    ----------
    model : SUWRClassifier, SUWRRegressor or path
        The fitted model, or its file.
    """

    def __init__(self, model: Any) -> None:
        model = load(model) if isinstance(model, str | os.PathLike) else model
        if not isinstance(model, SUWRModel):
            raise TypeError(
                "The 'model' parameter of verify must be a SUWRClassifier, a SUWRRegressor or the "
                f"path of a model file. Got {type(model).__name__} instead."
            )
        check_is_fitted(model, "policy_")
        fitted = self._fitted = model.fitted_policy()
        units, names = fitted.units, fitted.names
        self._number = {name: i for i, name in enumerate(units.names)}
        self._columns = {
            name: tuple(names[c] for c in units.columns_of(i)) for i, name in enumerate(units.names)
        }
        self._column_number = {name: i for i, name in enumerate(names)}
        self._classes = fitted.target.labels

    def verify(
        self, receipts: Iterable[Receipt | Mapping[str, Any] | str | bytes]
    ) -> list[Verification]:
        """Verify a batch of receipts, which are replayed together."""
        receipts = list(receipts)
        results: list[Verification | None] = [None] * len(receipts)
        # The receipts of each λ and each kind of start, with their positions in the batch.
        groups: dict[tuple[float | None, bool | None], list[tuple[int, Receipt]]]
        groups = defaultdict(list)
        for position, given in enumerate(receipts):
            try:
                receipt = _read(given)
                self._check_model(receipt)
            except ReceiptError as error:
                results[position] = Verification(False, str(error))
            else:
                limits = receipt.narrative.given
                kind = receipt.condition, None if limits is None else limits.exactly
                groups[kind].append((position, receipt))
        for (condition, _), members in groups.items():
            fitted = self._fitted if condition is None else self._fitted.at(condition)
            for (position, _), found in zip(members, self._replay(members, fitted), strict=True):
                results[position] = found
        return [result for result in results if result is not None]

    def _check_model(self, receipt: Receipt) -> None:
        """Refuse a receipt that is not of this model."""
        issuer, narrative = self._fitted.issuer, receipt.narrative
        if receipt.model != issuer.model:
            raise ReceiptError(
                f"it is of the model {receipt.model[:12]}…, not of {issuer.model[:12]}…, by "
                "the digests of their files."
            )
        n_units = len(self._fitted.units)
        if not _same(narrative.classes, self._classes) or narrative.n_units != n_units:
            raise ReceiptError("its classes or its number of units are not those of the model.")
        if not self._fitted.accepts(receipt.condition):
            raise ReceiptError("its position of λ is not that of the model.")
        most = largest_budget(self._fitted.policy.inputs)
        budget = None if narrative.given is None else narrative.given.max_cost
        if most is not None and (budget is None or budget > most):
            raise ReceiptError("its budget is not one that the model was fitted for.")
        expected = issuer.certificate if narrative.given is None else None
        if not _same(receipt.certificate, expected):
            raise ReceiptError("its certificate is not that of the model.")
        if narrative.given is not None:
            unknown = [c for c in narrative.given.known if c not in self._column_number]
            units = [*narrative.given.unavailable, *(narrative.given.costs or ())]
            unknown += [u for u in units if u not in self._number]
            if unknown:
                raise ReceiptError(f"the model has no {printable(unknown[0])!r}.")

    def _replay(
        self, members: Sequence[tuple[int, Receipt]], fitted: FittedPolicy
    ) -> list[Verification]:
        """Verify receipts with one policy."""
        receipts = [receipt for _, receipt in members]
        table, problems = self._table(receipts)
        given = [receipt.narrative.given for receipt in receipts]
        found = [g for g in given if g is not None]
        starts = fitted.starts_of(found) if found else None
        rollouts = fitted.rollouts(table, record=True, starts=starts)
        trace = join_traces([trace for _, trace in rollouts])
        assert trace.stop_probability is not None
        assert trace.margin is not None
        replays = map(
            Replay,
            problems,
            trace.order.tolist(),
            trace.stop_probability.astype(np.float64).tolist(),
            fitted.shown_states(trace).tolist(),
            trace.margin.tolist(),
            fitted.stop_reasons(trace, starts),
        )
        return [self._compare(*pair) for pair in zip(receipts, replays, strict=True)]

    def _table(self, receipts: Sequence[Receipt]) -> tuple[Table, list[tuple[int, str] | None]]:
        """Return the revealed cells, and the first step of each receipt with a wrong cell."""
        encoder, n = self._fitted.encoder, len(receipts)
        columns: list[NDArray[Any]] = [
            np.full(n, np.nan) if code.categories is None else np.full(n, None, dtype=object)
            for code in encoder.codes
        ]
        table, problems = Table(columns, n), list[tuple[int, str] | None]()
        for row, receipt in enumerate(receipts):
            known = dict((receipt.narrative.given or Given()).known)
            problem = self._fill_cells(table, row, known, 0)
            for number, step in enumerate(receipt.steps, start=1):
                problem = problem or self._fill(table, row, step.revealed, known, number)
            problems.append(problem)
        return table, problems

    def _fill(
        self,
        table: Table,
        row: int,
        revealed: dict[str, dict[str, Any]],
        known: dict[str, Any],
        number: int,
    ) -> tuple[int, str] | None:
        """Write the cells of a step into the table; return what is wrong with them."""
        for unit, values in revealed.items():
            if self._columns.get(unit) != tuple(values):
                return number, f"the model has no unit {printable(unit)!r} with these columns."
            for name, value in values.items():
                if name in known and not _same(known[name], value):
                    return number, f"{printable(name)!r} has two values."
                known[name] = value
            problem = self._fill_cells(table, row, values, number)
            if problem is not None:
                return problem
        return None

    def _fill_cells(
        self, table: Table, row: int, values: dict[str, Any], number: int
    ) -> tuple[int, str] | None:
        for name, value in values.items():
            column = self._column_number[name]
            code = self._fitted.encoder.codes[column]
            if value is None:
                continue
            parsed = code.parse(value)
            if isinstance(parsed, bool | int | float | str):
                table.columns[column][row] = parsed
            if not _same(table.value(row, column), value):
                return number, (
                    f"the value of {printable(name)!r} is not in the form of a receipt: "
                    f"{EXPECTED[code.type]}, or null if it is missing."
                )
        return None

    def _compare(self, receipt: Receipt, replay: Replay) -> Verification:
        """Compare a receipt with its replay."""
        exact = receipt.version == suwr.__version__ and (
            receipt.environment == self._fitted.issuer.environment
        )
        ties = tuple(i for i, margin in enumerate(replay.margins) if margin < TOLERANCE)
        found = self._first_difference(receipt, replay, exact)
        if found is None and exact and ties != receipt.near_ties:
            found = len(receipt.steps), f"the near ties are {list(ties)}."
        if found is not None:
            return Verification(False, found[1], found[0], exact, ties)
        return Verification(True, "", None, exact, tuple(sorted({*ties, *receipt.near_ties})))

    def _first_difference(
        self, receipt: Receipt, replay: Replay, exact: bool
    ) -> tuple[int, str] | None:
        """Return the number of the first step that differs, and how."""
        narrative, n_steps = receipt.narrative, len(receipt.steps)
        given = zip(narrative.stop_probabilities, narrative.predictions, strict=True)
        for number, (stop, prediction) in enumerate(given):
            if replay.problem is not None and replay.problem[0] == number:
                return replay.problem
            found, expected = replay.stops[number], replay.predictions[number]
            if stop != found or list(prediction) != expected:
                distance = max(
                    abs(stop - found), self._fitted.target.distance(prediction, expected)
                )
                if exact or not distance <= TOLERANCE:
                    return number, (
                        f"stop probability and prediction are {found!r} and {expected}, not "
                        f"{stop!r} and {list(prediction)}."
                    )
            taken = replay.units(number, self._fitted.units.names)
            claimed = narrative.steps[number].units if number < n_steps else ()
            if taken != claimed:
                policy, said = (
                    " and ".join(f"reveals {printable(u)!r}" for u in units) or "stops"
                    for units in (taken, claimed)
                )
                near = replay.margins[number] < TOLERANCE
                tie = " The decision is within rounding of a tie." if near else ""
                return number + 1, f"the policy {policy}, the receipt {said}.{tie}"
        if narrative.ended != replay.ended:
            return n_steps, f"the rollout ended by {replay.ended!r}, not {narrative.ended!r}."
        return None


def _read(receipt: Receipt | Mapping[str, Any] | str | bytes) -> Receipt:
    if isinstance(receipt, Mapping):
        return Receipt.from_dict(receipt)
    return receipt if isinstance(receipt, Receipt) else Receipt.from_json(receipt)


def _same(a: Any, b: Any) -> bool:
    """Equality in JSON: True is not 1, but 1 is 1.0."""
    return canonical_json(a) == canonical_json(b)


# Values of every type, for columns of every type.
_REPLACEMENTS: dict[str, Any] = {
    "missing": None,
    "huge": 1e30,
    "infinite": float("inf"),
    "number": 1,
    "boolean": True,
    "text": "an unknown category",
    "undecided": "maybe",
    "date": datetime.date(2020, 1, 1),
    "overlong integer": 10**400,
}
POISONS = (*_REPLACEMENTS, "other rows")


@dataclass(frozen=True)
class PoisonReport:
    """The result of `poison_check`.

    Attributes
    ----------
    n_rows, n_cells : int
        Rows tested, and unrevealed cells replaced over all kinds of replacement.
    n_changed : int
        Rows in which the mask, the order, a stop probability or a prediction changed.
    """

    n_rows: int
    n_cells: int
    n_changed: int

    @property
    def passed(self) -> bool:
        """Whether no row changed."""
        return self.n_changed == 0


def poisoned(X: Any, mask: NDArray[np.bool_], poison: str, rng: np.random.RandomState) -> Any:
    """Return a table in which every unrevealed cell is replaced.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_columns)
    mask : ndarray of bool, shape (n_rows, n_columns)
        The revealed cells.
    poison : str
        One of `POISONS`: the replacement, or 'other rows' for values of other rows.
    rng : RandomState

    Returns
    -------
    data frame or ndarray of object
        A frame of the library of ``X``. Columns of pandas hold objects. Columns of other libraries
        have a single type, which is text.
    """
    X = X if is_frame(X) or hasattr(X, "dtype") else np.array(X, dtype=object)
    columns = []
    for number, column in enumerate(raw_columns(X)):
        replaced = np.array(column, dtype=object)
        hidden = np.flatnonzero(~mask[:, number])
        if poison == "other rows":
            replaced[hidden] = rng.permutation(replaced)[hidden]
        else:
            replaced[hidden] = _REPLACEMENTS[poison]
        columns.append(replaced)
    names = column_names(X)
    if names is None:
        return np.stack(columns, axis=1)
    if hasattr(X, "iloc"):
        return type(X)(dict(zip(names, columns, strict=True)), index=X.index)
    texts = [[None if is_missing(cell) else str(cell) for cell in c] for c in columns]
    data = dict(zip(names, texts, strict=True))
    backend = nw.from_native(X, eager_only=True).implementation
    return nw.from_dict(data, dict.fromkeys(names, nw.String), backend=backend).to_native()


def poison_check(model: SUWRModel, X: Any, random_state: Any = None) -> PoisonReport:
    """Replace every cell that a row did not reveal, and compare the rollouts bit for bit.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame
    random_state : int, RandomState or None

    Returns
    -------
    PoisonReport
    """
    rng = check_random_state(random_state)
    if is_frame(X) and hasattr(model, "feature_names_in_"):
        X = select_columns(X, list(model.feature_names_in_))
    before = _rollout(model, X)
    n_rows = len(before.mask)
    changed = np.zeros(n_rows, dtype=bool)
    for poison in POISONS:
        changed |= _differs(before, _rollout(model, poisoned(X, before.mask, poison, rng)))
    n_cells = int((~before.mask).sum()) * len(POISONS)
    return PoisonReport(n_rows, n_cells, int(changed.sum()))


def _rollout(model: SUWRModel, X: Any) -> Trace:
    fitted = model.fitted_policy()
    values = fitted.encode(fitted.read(X))
    starts = Starts.usual(fitted.policy.inputs, len(values))
    return fitted.policy.rollout(values, record=True, starts=starts)


def _differs(one: Trace, two: Trace) -> NDArray[np.bool_]:
    """Return which rows have traces that differ in any bit."""
    if one.order.shape != two.order.shape:
        return np.ones(len(one.mask), dtype=bool)
    pairs = [
        (one.mask, two.mask),
        (one.order, two.order),
        (one.stop_probability, two.stop_probability),
        (one.prediction, two.prediction),
    ]
    differs = np.zeros(len(one.mask), dtype=bool)
    for a, b in pairs:
        left, right = np.asarray(a), np.asarray(b)
        same = (left == right) | ((left != left) & (right != right))
        differs |= ~same.reshape(len(left), -1).all(axis=1)
    return differs
