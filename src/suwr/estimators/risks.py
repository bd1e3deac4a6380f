"""Guarantees: risks of stopping early, the statistics that bound them, and certificates.

The null hypothesis of a policy is that its expected loss is at least ``level``. See
``docs/theory/guarantee.md`` for the argument.

The stopped policy is a fixed function of a row, like any other predictor: scores of calibration
rows and of a new row are exchangeable, whatever the policy reveals of each.

The digests of the training rows stay in memory. In a model file they would tell everybody who has a
row whether the model was fitted on it.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, hypergeom
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from suwr._utils.text import format_value, printable
from suwr._utils.validation import parameter_error, warn_caller
from suwr.estimators.targets import Target, ValueTarget
from suwr.exceptions import CertificationWarning
from suwr.training.data import Rows

# Losses that are 0 or 1 up to the rounding of their sum.
_ROUNDING = 1e-9


def binomial_p_value(losses: ArrayLike, level: float) -> float:
    """Return the exact p-value of losses that are 0 or 1: P(Bin(n, level) ≤ number of losses).

    Parameters
    ----------
    losses : array-like of shape (n,)
    level : float

    Examples
    --------
    >>> round(binomial_p_value([0] * 59, 0.05), 4), binomial_p_value([], 0.05)
    (0.0485, 1.0)
    """
    values = np.asarray(losses, dtype=np.float64)
    if len(values) == 0:
        return 1.0
    return float(binom.cdf(round(float(values.sum())), len(values), level))


def hoeffding_bentkus_p_value(losses: ArrayLike, level: float) -> float:
    """Return the Hoeffding–Bentkus p-value of losses in [0, 1].

    The smaller of Hoeffding's bound exp(-n kl(mean, level)) and Bentkus's bound
    e · P(Bin(n, level) ≤ ⌈sum⌉).

    Parameters
    ----------
    losses : array-like of shape (n,)
    level : float

    Examples
    --------
    >>> round(hoeffding_bentkus_p_value([0.0] * 100, 0.05), 4)
    0.0059
    """
    values = np.asarray(losses, dtype=np.float64)
    n = len(values)
    if n == 0:
        return 1.0
    mean = min(float(values.mean()), level)
    divergence = (1 - mean) * np.log((1 - mean) / (1 - level))
    if mean > 0:
        divergence += mean * np.log(mean / level)
    bentkus = math.e * binom.cdf(np.ceil(float(values.sum()) - _ROUNDING), n, level)
    return float(min(1.0, np.exp(-n * divergence), bentkus))


def fixed_sequence(p_values: Sequence[float] | NDArray[np.float64], error: float) -> int:
    """Return how many hypotheses fixed-sequence testing rejects: all before the first failure.

    Parameters
    ----------
    p_values : sequence of float
        In an order that does not depend on the rows that they were computed from.
    error : float
        Probability of rejecting any true hypothesis.

    Examples
    --------
    >>> fixed_sequence([0.01, 0.03, 0.2, 0.001], 0.05)
    2
    """
    failed = np.asarray(p_values) > error
    return int(np.argmax(failed)) if failed.any() else len(failed)


def smallest_sample(level: float, error: float) -> int:
    """Return how many rows without any loss a test at this level needs.

    Examples
    --------
    >>> smallest_sample(0.05, 0.05)
    59
    """
    return int(np.ceil(np.log(error) / np.log1p(-level)))


FloatArray = NDArray[np.float64]
#: Conformity scores by kind of model.
SCORES = {"classes": ("lac", "aps"), "values": ("absolute",)}


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ⌈(n + 1) · coverage⌉-th smallest score; infinity if there are too few.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 20.0), 0.9)
    18.0
    >>> conformal_quantile(np.arange(5.0), 0.9)
    inf
    """
    # A product such as 20 · 0.95 must not be rounded up because of the binary form of 0.95.
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return math.inf if rank > len(scores) else float(np.sort(scores)[rank - 1])


def scores_of_classes(probability: FloatArray, score: str) -> FloatArray:
    """Return the score of every class, small for a class that conforms.

    'lac' is one minus the probability. 'aps' is the total probability of the class and of all
    classes that are at least as probable.

    Examples
    --------
    >>> scores_of_classes(np.array([[0.5, 0.125, 0.375]]), "aps").tolist()
    [[0.5, 1.0, 0.875]]
    """
    if score == "lac":
        return 1.0 - probability
    at_least = probability[:, None, :] >= probability[:, :, None]
    return (at_least * probability[:, None, :]).sum(axis=2)


@dataclass(frozen=True)
class Conformal:
    """Calibrated prediction sets; see the attribute ``conformal_``.

    Attributes
    ----------
    coverage : float
        The set of a new exchangeable row contains its class or value with at least this
        probability.
    score : {'lac', 'aps', 'absolute'}
    quantile : float
        Classes or values with a score of at most this are in the set.
    n_rows : int
        Calibration rows.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    """

    coverage: float
    score: str
    quantile: float
    n_rows: int
    digest: str

    def sets(self, probability: FloatArray) -> NDArray[np.bool_]:
        """Return which classes are in the set of each row."""
        return np.asarray(scores_of_classes(probability, self.score) <= self.quantile)

    def intervals(self, value: FloatArray) -> FloatArray:
        """Return the ends of the interval of each row."""
        return np.stack([value - self.quantile, value + self.quantile], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent; an infinite quantile is None."""
        finite = math.isfinite(self.quantile)
        return {**asdict(self), "quantile": self.quantile if finite else None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Conformal:
        """Inverse of `to_dict`, with every value checked."""
        quantile = stored["quantile"]
        found = cls(
            float(stored["coverage"]),
            str(stored["score"]),
            math.inf if quantile is None else float(quantile),
            int(stored["n_rows"]),
            str(stored["digest"]),
        )
        known = [name for names in SCORES.values() for name in names]
        if not 0 < found.coverage < 1 or found.score not in known or math.isnan(found.quantile):
            raise ValueError("The calibration of the prediction sets is invalid.")
        return found


#: ``risk(prediction, full, y)`` returns one number in [0, 1] per row.
RiskFunction = Callable[[FloatArray, FloatArray, Any], Any]
#: Maps predictions and full predictions of all rows, in the units of the user, to losses.
Losses = Callable[[FloatArray, FloatArray], FloatArray]


def losses_of(
    target: Target, risk: str | RiskFunction, y: Any, n_rows: int, tolerance: float | None
) -> Losses:
    """Return the function that maps predictions and full predictions to the losses of all rows.

    Parameters
    ----------
    target : Target
    risk : {'disagreement', 'error', 'loss'} or callable
    y : array-like of shape (n_rows,) or None
        Only 'disagreement' and functions do not need it.
    n_rows : int
    tolerance : float or None
        Difference of predicted values that does not count; regression only.
    """
    classes = target.labels is not None
    if classes and tolerance is not None:
        raise parameter_error("tolerance", "certify", "None for a classifier", tolerance)
    if not classes and tolerance is None and risk in ("disagreement", "error"):
        raise parameter_error("tolerance", "certify", f"a float if risk={risk!r}", None)
    if y is None and risk in ("error", "loss"):
        raise ValueError(f"The 'y_cal' parameter of certify is required if risk={risk!r}.")
    # 'disagreement' does not read the target.
    truth = np.zeros(n_rows) if y is None else target.read(y, n_rows)
    if callable(risk):
        return _of_function(risk, target, None if y is None else column_or_1d(y))
    unit, near = target.constant_loss, tolerance or 0.0
    if risk == "loss" and tolerance is not None:
        assert isinstance(target, ValueTarget)
        if target.loss != "squared_error" or target.transform is not None:
            expected = (
                "None if risk='loss', unless the loss of the model is 'squared_error' without a "
                "'target_transform'"
            )
            raise parameter_error("tolerance", "certify", expected, tolerance)
        unit = tolerance**2

    def disagreement(stopped: FloatArray, full: FloatArray) -> FloatArray:
        return target.differ(stopped, full, near).astype(np.float64)

    def error(stopped: FloatArray, full: FloatArray) -> FloatArray:
        wrong = target.wrong(stopped, truth, near) & ~target.wrong(full, truth, near)
        return wrong.astype(np.float64)

    def loss(stopped: FloatArray, full: FloatArray) -> FloatArray:
        excess = target.row_losses(truth, stopped) - target.row_losses(truth, full)
        return np.clip(excess / unit, 0.0, 1.0)

    return {"disagreement": disagreement, "error": error, "loss": loss}[risk]


def _of_function(risk: RiskFunction, target: Target, y: Any) -> Losses:
    def evaluate(stopped: FloatArray, full: FloatArray) -> FloatArray:
        losses = np.asarray(risk(target.outputs(stopped), target.outputs(full), y), np.float64)
        if losses.shape != (len(stopped),) or not ((losses >= 0) & (losses <= 1)).all():
            raise ValueError(
                "The function 'risk' of certify must return one number in [0, 1] per row. Got an "
                f"array of shape {losses.shape}."
            )
        return losses

    return evaluate


Digests = NDArray[np.uint64]
# Training rows whose digests are kept, drawn at random from more.
MAX_DIGESTS = 10_000
# Probability of a wrong warning if calibration rows are new rows.
SIGNIFICANCE = 1e-3


def row_digests(values: Tensor) -> Digests:
    """Return a 64-bit digest of each encoded row.

    Parameters
    ----------
    values : Tensor of shape (n, n_values)
    """
    rows = np.ascontiguousarray(values.cpu().numpy())
    data = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return np.frombuffer(data, dtype=np.uint64)


def training_digests(parts: Sequence[Rows]) -> Digests:
    """Return the digests of the rows of a fit, of a random sample if there are many."""
    total = sum(map(len, parts))
    # The seed is fixed: the generator of the fit draws the same numbers as without.
    chosen = np.random.RandomState(0).permutation(total)[:MAX_DIGESTS]
    found, first = [], 0
    for rows in parts:
        here = np.sort(chosen[(chosen >= first) & (chosen < first + len(rows))]) - first
        found.append(row_digests(rows.values[torch.as_tensor(here, device=rows.values.device)]))
        first += len(rows)
    return np.concatenate(found)


def warn_known_rows(digests: Digests, training: Digests | None) -> None:
    """Warn if calibration rows are training rows, or mostly one and the same row.

    Rows of few distinct values equal training rows by chance. If they are new rows, they do so as
    often as one training row equals another; the test is Fisher's exact one.

    Parameters
    ----------
    digests : ndarray of shape (n,)
        Of the calibration rows.
    training : ndarray of shape (m,) or None
        Of the training rows; None if they are not known.
    """
    n = len(digests)
    most = int(np.unique(digests, return_counts=True)[1].max())
    if n > 1 and most > n / 2:
        warn_caller(
            f"{most:,} of the {n:,} calibration rows are the same row. The guarantee holds only if "
            "new rows are this one as often.",
            CertificationWarning,
        )
    if training is None:
        return
    known = int(np.isin(digests, training).sum())
    counts = np.unique(training, return_counts=True)[1]
    m, repeated = len(training), int(counts[counts > 1].sum())
    if hypergeom.sf(known - 1, n + m, known + repeated, n) <= SIGNIFICANCE:
        warn_caller(
            f"{known:,} of the {n:,} calibration rows equal rows that the model was fitted on. The "
            "guarantee requires rows that 'fit' has not used.",
            CertificationWarning,
        )


#: The built-in risks; a callable has the name of the function.
RISKS = ("disagreement", "error", "loss")
# Groups or classes that a sentence lists by name.
_MAX_LISTED = 4
# Fields that earlier certificates lack; None in `from_dict`, and left out by `to_dict`.
_ADDED = ("class_names", "class_kind", "empty_risk", "needs_nothing", "outcomes")


@dataclass(frozen=True)
class Certificate:
    """The guarantee that ``certify`` established; see the attribute ``certificate_``.

    With probability at least ``confidence`` over the calibration rows, the expected risk of a new
    exchangeable row is at most ``level``.

    Attributes
    ----------
    risk : str
        'disagreement', 'error', 'loss' or the name of the function.
    level, confidence : float
    n_rows : int
        Calibration rows that the policy was tested on.
    empirical_risk : float
        Mean risk of these rows; of the answered ones if ``abstain``.
    p_value : float
        Of the hypothesis that the risk is at least ``level``; the largest over all groups, classes
        and numbers of steps. 0 if everything is revealed, which has no risk by definition.
    mean_cost, full_cost : float
        Mean cost of the calibration rows, and the cost of revealing everything.
    rule : {'confidence', 'gain'}
        What the policy stops by.
    threshold : float
        'confidence': the policy stops where the odds of all other classes against the predicted one
        are at most this. 'gain': where the expected gain of continuing is at most this, in units of
        the loss of the best constant prediction.
    sparsity_weight : float or None
        λ, for a model that was fitted for a range.
    tolerance : float or None
        Difference of predicted values that does not count; regression only.
    groups : tuple of str or None
        The groups in each of which the guarantee holds.
    steps : int or None
        The guarantee also holds among the rows that stop within t steps, for each t from this on.
    abstain : bool
        Whether the guarantee is for answered rows only; rows that use up ``max_steps`` abstain.
    answered : float
        Fraction of the calibration rows that are answered.
    reveals_everything : bool
        Whether no cheaper policy passed the test, so that every feature is revealed.
    classes : bool
        Whether predictions are classes.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    class_names : tuple of str or None
        The classes in each of which the guarantee holds.
    class_kind : {'true', 'predicted'} or None
        What these are classes of: the labels, or the predictions with everything revealed.
    empty_risk : float or None
        Mean risk, on the same rows, of the policy that stops at once; the largest over all groups
        and classes. None if everything is revealed.
    needs_nothing : bool or None
        Whether the policy that stops at once meets the level on these rows too, so that the
        guarantee says little.
    outcomes : str or None
        SHA-256 of the number of steps of each calibration row and of whether its loss is above one
        half; see `suwr.verify_certificate`.

    Examples
    --------
    >>> c = Certificate("disagreement", 0.05, 0.95, 500, 0.02, 0.001, 3.1, 30.0, "gain", 0.01)
    >>> print(c.sentence)  # doctest: +NORMALIZE_WHITESPACE
    Certified on 500 rows: with probability 95 %, at most 5 % of new rows would be predicted
    otherwise if all features were revealed.
    """

    risk: str
    level: float
    confidence: float
    n_rows: int
    empirical_risk: float
    p_value: float
    mean_cost: float
    full_cost: float
    rule: str
    threshold: float
    sparsity_weight: float | None = None
    tolerance: float | None = None
    groups: tuple[str, ...] | None = None
    steps: int | None = None
    abstain: bool = False
    answered: float = 1.0
    reveals_everything: bool = False
    classes: bool = True
    digest: str = ""
    class_names: tuple[str, ...] | None = None
    class_kind: str | None = None
    empty_risk: float | None = None
    needs_nothing: bool | None = None
    outcomes: str | None = None

    @property
    def sentence(self) -> str:
        """The guarantee in one sentence, and the `caution`."""
        if self.reveals_everything:
            return (
                f"No policy that leaves features unrevealed could be certified at {self._risk} "
                f"with probability {_percent(self.confidence)}, so all features are revealed."
            )
        found = (
            f"Certified on {self.n_rows:,} rows: with probability {_percent(self.confidence)}, "
            f"{self._claim}{self._scope}."
        )
        return f"{found} {self.caution}" if self.caution else found

    @property
    def caution(self) -> str:
        """That the guarantee is met without acquiring any feature, if it is; '' otherwise."""
        if not self.needs_nothing or self.empty_risk is None:
            return ""
        by_row = self.risk in ("disagreement", "error")
        if by_row and self.classes and self.class_names is None:
            other = "for each class (per='class') or for the loss (risk='loss')"
        elif by_row and not self.classes:
            other = "for the loss (risk='loss') or for a smaller tolerance"
        else:
            other = "for a smaller level"
        return (
            "This is met without acquiring any feature: the prediction at the start has a risk of "
            f"{100 * self.empty_risk:.2g} % on these rows. A guarantee {other} says more."
        )

    @property
    def _risk(self) -> str:
        return f"a risk ({printable(self.risk)}) of at most {_percent(self.level)}"

    @property
    def _claim(self) -> str:
        level = _percent(self.level)
        rows = "answered rows" if self.abstain else "new rows"
        by = "" if self.tolerance is None else f" by more than {format_value(self.tolerance)}"
        if self.risk == "disagreement":
            how = "otherwise" if self.classes else f"differently{by}"
            return (
                f"at most {level} of {rows} would be predicted {how} if all features were revealed"
            )
        if self.risk == "error":
            wrong = "wrongly" if self.classes else f"wrongly{by}"
            return (
                f"at most {level} of {rows} are predicted {wrong} that would be predicted "
                "correctly if all features were revealed"
            )
        row = "an answered row" if self.abstain else "a new row"
        if self.risk == "loss":
            unit = (
                "loss of the best constant prediction"
                if self.tolerance is None
                else f"square of {format_value(self.tolerance)}"
            )
            return (
                f"the expected loss of {row} exceeds the loss with all features revealed by at "
                f"most {level} of the {unit}"
            )
        return f"the expected risk ({printable(self.risk)}) of {row} is at most {level}"

    @property
    def _scope(self) -> str:
        parts = []
        if self.class_names is not None:
            kind = "true class" if self.class_kind == "true" else "class that all features predict"
            groups = "" if self.groups is None else f" of each group ({_listed(self.groups)})"
            parts.append(f"in each {kind} ({_listed(self.class_names)}){groups}")
        elif self.groups is not None:
            parts.append(f"in each group ({_listed(self.groups)})")
        if self.steps is not None:
            parts.append(
                f"also among the rows that stop within t steps, for every t ≥ {self.steps}"
            )
        return "".join(f", {part}" for part in parts)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in state.items() if v is not None or k not in _ADDED}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Create a certificate from the output of `to_dict`, after checking every value."""
        known = {field.name: field.type for field in fields(cls)}
        state: dict[str, Any] = dict.fromkeys(_ADDED) | dict(stored)
        if set(state) != set(known):
            raise ValueError("The certificate does not have the expected fields.")
        for name, kind in known.items():
            if not _is_a(state[name], str(kind)):
                raise ValueError(f"The field {name!r} of the certificate is invalid.")
        state = {k: tuple(v) if isinstance(v, list) else v for k, v in state.items()}
        found = cls(**state)
        if found.class_kind not in (None, "true", "predicted"):
            raise ValueError("The classes of the certificate are invalid.")
        if (found.class_kind is None) != (found.class_names is None):
            raise ValueError("The classes of the certificate are invalid.")
        if found.rule not in ("confidence", "gain") or found.threshold != found.threshold:
            raise ValueError("The stopping rule of the certificate is invalid.")
        if not (0 < found.level < 1 and 0 < found.confidence < 1 and found.n_rows > 0):
            raise ValueError("The level of the certificate is invalid.")
        shares = found.empirical_risk, found.p_value, found.answered, found.empty_risk or 0.0
        least = min(found.mean_cost, found.full_cost, found.steps or 0)
        if not all(0 <= share <= 1 for share in shares) or least < 0:
            raise ValueError("The results of the certificate are invalid.")
        return found


def _percent(p: float) -> str:
    """Format a level with as many digits as it was given with."""
    return f"{100 * p:.6g} %"


def _listed(names: tuple[str, ...]) -> str:
    listed, more = ", ".join(printable(n) for n in names[:_MAX_LISTED]), len(names) - _MAX_LISTED
    return f"{listed}{f' and {more} more' if more > 0 else ''}"


def _is_a(value: Any, kind: str) -> bool:
    """Whether a value from JSON has the type of a field of the certificate."""
    if value is None:
        return kind.endswith("| None")
    if kind.startswith("tuple"):
        return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
    if kind.startswith("float"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max
    if kind.startswith("int"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"bool": bool, "str": str}[kind.removesuffix(" | None")])
