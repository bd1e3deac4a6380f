"""Predictive gaps: what a selection tells beyond the values it reveals, in bits.

Two models predict the same target from the same inputs, x ⊙ h beside h. The first learns from
masks that were shuffled over the rows, so that the mask itself says nothing: it estimates
p(target | x ⊙ h), and is EVAL-X with the selector's own distribution of masks. The second learns
from the masks as they were chosen: it estimates p(target | x ⊙ h, "ζ chose h"). By the
definitions of label and feature leakage the two agree just when nothing leaks, and the mean
difference of their log losses is the amount, in bits; for the label it is the quantity that the
ENCODE-METER estimates. All losses are cross-fitted: no row is judged by a model that saw it.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from suwr._utils.progress import ProgressCounter
from suwr.audit._models import MAX_LEVELS, as_classes, bits, fit_predict, masked_inputs
from suwr.audit._table import IntArray, Table
from suwr.selector import BoolArray

_N_SHUFFLES = 4
_FEWEST_ROWS = 100
# Targets times columns is what the models cost.
_MAX_CELLS = 4000
_MAX_TARGETS = 40
_FEWEST_TARGETS = 8
#: Bits, and share of what is told in all. The two models learn from different rows and masks, and
#: the first has the harder task; with much to learn it may lag behind by this share.
SMALLEST_GAP = 0.01
SMALLEST_SHARE = 0.03


@dataclass(frozen=True)
class Gap:
    """How much the selection tells about one target, in bits per row.

    Attributes
    ----------
    target : str
        Name of a hidden unit, or "label".
    leak : float
        What the selection tells beyond the revealed values: bits(mask and values) − bits(values).
    low, high : float
        Confidence interval of ``leak``.
    lower_bound : float
        Bound below ``leak`` that holds for all targets at once with the false-alarm rate.
    revealed : float
        What the revealed values alone tell (EVAL-X), compared with no knowledge.
    mask_alone : float
        What the mask alone tells, without any value.
    both : float
        What mask and revealed values tell together.
    encode_meter : float
        The same leak as a plug-in estimate, as the ENCODE-METER does it: the mean divergence
        between the predictions of the two models. Never negative, and so biased upwards.
    n_rows : int
        Rows in which the target is hidden, on which all this is measured.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.audit import audit_masks
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> masks = np.column_stack([X[:, 1] > 0, np.zeros(400, dtype=bool)])
    >>> gap = audit_masks(X, masks, X[:, 1] > 0, random_state=0).gaps.label
    >>> gap.significant, round(gap.leak)
    (True, 1)
    """

    target: str
    leak: float
    low: float
    high: float
    lower_bound: float
    revealed: float
    mask_alone: float
    both: float
    encode_meter: float
    n_rows: int

    @property
    def significant(self) -> bool:
        """Whether the amount is surely more than the bias of the models, for all targets."""
        return self.lower_bound > max(SMALLEST_GAP, SMALLEST_SHARE * self.both)

    def stripe_x(self, weight: float = 20.0) -> float:
        """Score of a selection that punishes encoding: EVAL-X less ``weight`` × ENCODE-METER."""
        return self.revealed - weight * self.encode_meter

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Gaps:
    """All predictive gaps of one audit.

    Attributes
    ----------
    label : Gap or None
        None without labels.
    features : list of Gap
        Hidden units, the most leaked first.
    confidence : float
        Of the intervals of single gaps.
    n_untested : int
        Units that were left out to save time.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.audit import audit_masks
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> masks = np.column_stack([X[:, 1] > 0, np.zeros(400, dtype=bool)])
    >>> gaps = audit_masks(X, masks, random_state=0).gaps
    >>> [gap.target for gap in gaps.significant]
    ['x1']
    """

    label: Gap | None
    features: list[Gap]
    confidence: float
    n_untested: int = 0

    @property
    def significant(self) -> list[Gap]:
        """The gaps that are above zero, the label first."""
        everything = ([self.label] if self.label is not None else []) + self.features
        return [gap for gap in everything if gap.significant]

    @property
    def cautions(self) -> list[str]:
        """What a reader should know before taking the absence of a gap for an answer."""
        if self.label is None and not self.features:
            return [
                "No predictive gap could be measured: that takes a label, or a hidden feature "
                f"that varies, in at least {_FEWEST_ROWS} rows."
            ]
        if self.n_untested:
            return [
                f"{self.n_untested} hidden features were left out of the predictive gaps to save "
                "time: those that go least with the masks."
            ]
        return []


def tree_inputs(table: Table) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values as numbers that trees can read, and which of them are categories."""
    values = table.codes.astype(float)
    categorical = ~table.numeric & (table.codes.max(axis=0) < MAX_LEVELS)
    return values, categorical


def predictive_gaps(
    table: Table,
    masks: BoolArray,
    y: Any | None,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    false_alarm_rate: float = 0.01,
    n_folds: int = 3,
    counter: ProgressCounter | None = None,
) -> Gaps:
    """Measure label leakage and the leakage of each hidden unit.

    Of many units, or in wide rows, only those are measured that the masks go with most.

    Parameters
    ----------
    table : Table
    masks : bool array of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,), optional
    rng : numpy.random.Generator
    confidence : float
        Of the interval of each single gap.
    false_alarm_rate : float
        Of the lower bounds, all together.
    n_folds : int
    counter : ProgressCounter, optional
        Counts the targets.
    """
    most = int(np.clip(_MAX_CELLS // table.n_columns, _FEWEST_TARGETS, _MAX_TARGETS))
    units = _order_of_interest(table, masks)[:most]
    n_targets = table.n_units + (y is not None)
    meter = _Meter(table, masks, confidence, false_alarm_rate / n_targets, n_folds, rng)
    counter = counter or ProgressCounter()
    counter.expect(len(units) + (y is not None))
    label = None
    if y is not None:
        label = meter.measure("label", as_classes(y), None)
        counter(1)
    features = []
    for u in units:
        gap = meter.measure(table.unit_names[u], as_classes(table.unit_codes[:, u]), int(u))
        counter(1)
        if gap is not None:
            features.append(gap)
    features.sort(key=lambda gap: -gap.leak)
    return Gaps(label, features, confidence, table.n_units - len(units))


def _order_of_interest(table: Table, masks: BoolArray) -> IntArray:
    """Units by how strongly their value goes with any entry of the mask."""
    sums = masks - masks.mean(axis=0)
    values = table.unit_codes - table.unit_codes.mean(axis=0)
    scale = np.outer(np.linalg.norm(values, axis=0), np.linalg.norm(sums, axis=0)) + 1e-12
    return np.argsort(-abs(values.T @ sums / scale).max(axis=1), kind="stable")


class _Meter:
    """Measures one target after the other with the same folds."""

    def __init__(
        self,
        table: Table,
        masks: BoolArray,
        confidence: float,
        level: float,
        n_folds: int,
        rng: np.random.Generator,
    ) -> None:
        self.masks = masks
        self.values, self.categorical = tree_inputs(table)
        self.unit_of = table.unit_of
        self.fold = rng.permutation(np.arange(table.n_rows) % n_folds)
        self.n_folds = n_folds
        self.z = float(norm.isf((1 - confidence) / 2))
        self.z_all = float(norm.isf(level))
        self.seed = int(rng.integers(2**31))
        self.rng = rng

    def measure(self, name: str, target: IntArray, unit: int | None) -> Gap | None:
        """The gap of one target; None where it is hidden in too few rows, or constant there."""
        hidden = np.ones(len(self.masks), dtype=bool)
        if unit is not None:
            hidden &= ~self.masks[:, self.unit_of == unit].any(axis=1)
        if hidden.sum() < _FEWEST_ROWS or len(np.unique(target[hidden])) < 2:
            return None
        losses = np.concatenate([self._fold(f, target, hidden) for f in range(self.n_folds)])
        none, values, mask, both, divergence = losses.T
        difference = values - both
        leak = float(difference.mean())
        error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
        return Gap(
            target=name,
            leak=leak,
            low=leak - self.z * error,
            high=leak + self.z * error,
            lower_bound=leak - self.z_all * error,
            revealed=float((none - values).mean()),
            mask_alone=float((none - mask).mean()),
            both=float((none - both).mean()),
            encode_meter=float(divergence.mean()),
            n_rows=int(hidden.sum()),
        )

    def _fold(self, fold: int, target: IntArray, hidden: BoolArray) -> NDArray[np.float64]:
        """Losses of the four models, and the divergence, on the hidden rows of one fold."""
        train = self.fold != fold
        test = np.flatnonzero(~train & hidden)
        if not len(test):
            return np.empty((0, 5))
        n_classes = int(target.max()) + 1
        asked = masked_inputs(self.values[test], self.masks[test])
        own = np.flatnonzero(train & hidden)
        chosen = masked_inputs(self.values[own], self.masks[own])
        # EVAL-X: any row with any mask of the same kind, chosen without looking at the row.
        rows = np.tile(np.flatnonzero(train), _N_SHUFFLES)
        borrowed = self.masks[self.rng.choice(own, size=len(rows))]
        shuffled = masked_inputs(self.values[rows], borrowed)
        d = self.masks.shape[1]
        cat = np.concatenate([self.categorical, np.zeros(d, dtype=bool)])
        prior = (np.bincount(target[own], minlength=n_classes) + 1.0) / (len(own) + n_classes)
        p_values = self._fit(shuffled, target[rows], asked, n_classes, cat, _N_SHUFFLES)
        p_mask = self._fit(chosen[:, d:], target[own], asked[:, d:], n_classes, None)
        p_both = self._fit(chosen, target[own], asked, n_classes, cat)
        p_none = np.repeat(prior[None], len(test), axis=0)
        losses = [bits(p, target[test]) for p in (p_none, p_values, p_mask, p_both)]
        divergence = (p_both * np.log2(p_both / p_values)).sum(axis=1)
        return np.stack([*losses, divergence], axis=1)

    def _fit(
        self,
        train: NDArray[np.float64],
        target: IntArray,
        test: NDArray[np.float64],
        n_classes: int,
        categorical: NDArray[np.bool_] | None,
        copies: int = 1,
    ) -> NDArray[np.float64]:
        return fit_predict(train, target, test, n_classes, categorical, self.seed, copies)
