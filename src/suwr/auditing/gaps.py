"""Predictive gaps: what a selection reveals beyond the selected values, in bits.

Two models predict the same target from the same inputs, x ⊙ h and h. The first is trained on masks
permuted across rows, so that the mask carries no information: it estimates p(target | x ⊙ h), and
is EVAL-X with the selector's own distribution of masks. The second is trained on the masks as
selected and estimates p(target | x ⊙ h, h was selected). By the definitions of label and feature
leakage, the two distributions are equal if and only if nothing leaks, and the mean difference of
the log losses is the amount of leakage; for the label, the ENCODE-METER estimates the same
quantity. All losses are cross-fitted: no row is evaluated by a model that was trained on it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier

from suwr._utils.progress import ProgressCounter
from suwr.auditing.background import BackgroundData, FloatArray, IntArray, encode
from suwr.selector import BoolArray

_N_FOLDS = 3
_N_PERMUTATIONS = 4
_MIN_ROWS = 100
# The cost of the models is proportional to targets × columns.
_MAX_CELLS = 4000
_MAX_TARGETS = 40
_MIN_TARGETS = 8
_MAX_BINS = 32
_PRIOR_WEIGHT = 2e-3
# Minimum significant gap: absolute (bits) and relative to the information of mask and values
# together. The model of permuted masks solves the harder task and may lag behind by this much.
_MIN_GAP = 0.01
_MIN_RELATIVE_GAP = 0.03


@dataclass(frozen=True)
class PredictiveGap:
    """Information that the selection carries about one target, in bits per row.

    Attributes
    ----------
    target : str
        Name of a hidden unit, or "label".
    leak : float
        Information beyond the revealed values: ``both - revealed``.
    low, high : float
        Confidence interval of ``leak``.
    lower_bound : float
        Lower confidence bound of ``leak``, simultaneously for all targets at the false-alarm rate.
    revealed : float
        Information in the revealed values alone (EVAL-X), relative to the marginal distribution.
    mask_alone : float
        Information in the mask alone, without any value.
    both : float
        Information in the mask and the revealed values together.
    encode_meter : float
        Plug-in estimate of ``leak``, as the ENCODE-METER: the mean Kullback–Leibler divergence
        between the predictions of the two models. Non-negative, hence biased upwards.
    n_rows : int
        Number of rows in which the target is hidden, on which all quantities are measured.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.auditing import audit_masks
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
        """Whether the simultaneous lower bound exceeds the minimum significant gap."""
        return self.lower_bound > max(_MIN_GAP, _MIN_RELATIVE_GAP * self.both)

    def stripe_x(self, weight: float = 20.0) -> float:
        """STRIPE-X score: ``revealed - weight * encode_meter``."""
        return self.revealed - weight * self.encode_meter


@dataclass(frozen=True)
class PredictiveGaps:
    """Predictive gaps of an audit.

    Attributes
    ----------
    label : PredictiveGap or None
        None without labels.
    features : list of PredictiveGap
        Hidden units, sorted by decreasing ``leak``.
    confidence : float
        Confidence level of the intervals of single gaps.
    n_untested : int
        Number of units that were not measured, to save time.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.auditing import audit_masks
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> masks = np.column_stack([X[:, 1] > 0, np.zeros(400, dtype=bool)])
    >>> gaps = audit_masks(X, masks, random_state=0).gaps
    >>> [gap.target for gap in gaps.significant]
    ['x1']
    """

    label: PredictiveGap | None
    features: list[PredictiveGap]
    confidence: float
    n_untested: int = 0

    @property
    def significant(self) -> list[PredictiveGap]:
        """The significant gaps, the label first."""
        everything = ([self.label] if self.label is not None else []) + self.features
        return [gap for gap in everything if gap.significant]

    @property
    def cautions(self) -> list[str]:
        """Caveats about the absence of significant gaps."""
        if self.label is None and not self.features:
            return [
                "No predictive gap could be measured: this requires a label, or a hidden feature "
                f"that varies, in at least {_MIN_ROWS} rows."
            ]
        if self.n_untested:
            return [
                f"The predictive gaps of {self.n_untested} hidden features were not measured, to "
                "save time; these features correlate least with the masks."
            ]
        return []


def predictive_gaps(
    background: BackgroundData,
    masks: BoolArray,
    y: Any | None,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    false_alarm_rate: float = 0.01,
    progress: ProgressCounter | None = None,
) -> PredictiveGaps:
    """Measure label leakage and the leakage of each hidden unit.

    If there are many units or columns, only the units that correlate most with the masks are
    measured.

    Parameters
    ----------
    background : BackgroundData
    masks : bool array of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,), optional
    rng : numpy.random.Generator
    confidence : float
        Confidence level of the interval of each single gap.
    false_alarm_rate : float
        Family-wise error rate of the lower bounds.
    progress : ProgressCounter, optional
        Advanced by one per target.
    """
    max_targets = int(np.clip(_MAX_CELLS // background.n_columns, _MIN_TARGETS, _MAX_TARGETS))
    units = _by_correlation(background, masks)[:max_targets]
    n_targets = background.n_units + (y is not None)
    level = false_alarm_rate / n_targets
    estimator = _GapEstimator(background, masks, confidence, level, rng)
    progress = progress or ProgressCounter()
    progress.expect(len(units) + (y is not None))
    label = None
    if y is not None:
        label = estimator.estimate("label", as_classes(y), None)
        progress(1)
    features = []
    for u in units:
        target = as_classes(background.unit_codes[:, u])
        gap = estimator.estimate(background.unit_names[u], target, int(u))
        progress(1)
        if gap is not None:
            features.append(gap)
    features.sort(key=lambda gap: -gap.leak)
    return PredictiveGaps(label, features, confidence, background.n_units - len(units))


def _by_correlation(background: BackgroundData, masks: BoolArray) -> IntArray:
    """Units sorted by the largest absolute correlation of their codes with a mask entry."""
    centred_masks = masks - masks.mean(axis=0)
    values = background.unit_codes - background.unit_codes.mean(axis=0)
    norms = np.linalg.norm(values, axis=0), np.linalg.norm(centred_masks, axis=0)
    correlation = values.T @ centred_masks / (np.outer(*norms) + 1e-12)
    return np.argsort(-abs(correlation).max(axis=1), kind="stable")


class _GapEstimator:
    """Estimates the gaps of several targets on the same folds."""

    def __init__(
        self,
        background: BackgroundData,
        masks: BoolArray,
        confidence: float,
        level: float,
        rng: np.random.Generator,
    ) -> None:
        self.masks = masks
        self.values = background.codes.astype(float)
        categorical = ~background.numeric & (background.codes.max(axis=0) < _MAX_BINS)
        self.categorical = np.concatenate([categorical, np.zeros(masks.shape[1], dtype=bool)])
        self.unit_of = background.unit_of
        self.fold = rng.permutation(np.arange(background.n_rows) % _N_FOLDS)
        self.z = float(norm.isf((1 - confidence) / 2))
        self.z_simultaneous = float(norm.isf(level))
        self.seed = int(rng.integers(2**31))
        self.rng = rng

    def estimate(self, name: str, target: IntArray, unit: int | None) -> PredictiveGap | None:
        """Estimate the gap of a target; None if it is constant or hidden in too few rows."""
        hidden = np.ones(len(self.masks), dtype=bool)
        if unit is not None:
            hidden &= ~self.masks[:, self.unit_of == unit].any(axis=1)
        if hidden.sum() < _MIN_ROWS or len(np.unique(target[hidden])) < 2:
            return None
        losses = np.concatenate([self._evaluate_fold(f, target, hidden) for f in range(_N_FOLDS)])
        prior, values, mask, both, divergence = losses.T
        difference = values - both
        leak = float(difference.mean())
        error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
        return PredictiveGap(
            target=name,
            leak=leak,
            low=leak - self.z * error,
            high=leak + self.z * error,
            lower_bound=leak - self.z_simultaneous * error,
            revealed=float((prior - values).mean()),
            mask_alone=float((prior - mask).mean()),
            both=float((prior - both).mean()),
            encode_meter=float(divergence.mean()),
            n_rows=int(hidden.sum()),
        )

    def _evaluate_fold(self, fold: int, target: IntArray, hidden: BoolArray) -> FloatArray:
        """Losses of the prior, values, mask and both models and the divergence, per test row."""
        train = self.fold != fold
        test = np.flatnonzero(~train & hidden)
        if not len(test):
            return np.empty((0, 5))
        n_classes = int(target.max()) + 1
        test_inputs = masked_inputs(self.values[test], self.masks[test])
        own = np.flatnonzero(train & hidden)
        own_inputs = masked_inputs(self.values[own], self.masks[own])
        # EVAL-X: any training row with a mask that was selected for another row.
        rows = np.tile(np.flatnonzero(train), _N_PERMUTATIONS)
        permuted_masks = self.masks[self.rng.choice(own, size=len(rows))]
        permuted_inputs = masked_inputs(self.values[rows], permuted_masks)
        d = self.masks.shape[1]
        categorical, seed = self.categorical, self.seed
        prior = _smoothed_frequencies(target[own], n_classes)
        p_prior = np.repeat(prior[None], len(test), axis=0)
        p_values = fit_predict(
            permuted_inputs,
            target[rows],
            test_inputs,
            n_classes,
            categorical,
            seed,
            _N_PERMUTATIONS,
        )
        p_mask = fit_predict(
            own_inputs[:, d:], target[own], test_inputs[:, d:], n_classes, None, seed
        )
        p_both = fit_predict(own_inputs, target[own], test_inputs, n_classes, categorical, seed)
        losses = [log_loss_bits(p, target[test]) for p in (p_prior, p_values, p_mask, p_both)]
        divergence = (p_both * np.log2(p_both / p_values)).sum(axis=1)
        return np.stack([*losses, divergence], axis=1)


def masked_inputs(values: FloatArray, masks: BoolArray) -> FloatArray:
    """Concatenate x ⊙ h, with NaN for hidden values, and h.

    Examples
    --------
    >>> masked_inputs(np.array([[3.0, 4.0]]), np.array([[True, False]])).tolist()
    [[3.0, nan, 1.0, 0.0]]
    """
    return np.concatenate([np.where(masks, values, np.nan), masks.astype(float)], axis=1)


def fit_predict(
    train: FloatArray,
    target: IntArray,
    test: FloatArray,
    n_classes: int,
    categorical: NDArray[np.bool_] | None,
    seed: int,
    copies: int = 1,
) -> FloatArray:
    """Predict strictly positive class probabilities, of shape (n_test, n_classes).

    ``copies`` is the number of times that each label occurs in ``train``; the regularization
    increases with it, so that repeated labels are not fitted more closely.
    """
    prior = _smoothed_frequencies(target, n_classes)
    probabilities = np.repeat(prior[None], len(test), axis=0)
    varies = _varying_columns(train)
    if len(np.unique(target)) > 1 and varies.any():
        model = HistGradientBoostingClassifier(
            # The cost is dominated by the number of trees: use few, with a large step.
            max_iter=10,
            learning_rate=0.3,
            max_leaf_nodes=5,
            min_samples_leaf=20 * copies,
            l2_regularization=2.0 * copies,
            max_bins=_MAX_BINS,
            early_stopping=False,
            categorical_features=None if categorical is None else categorical[varies],
            random_state=seed,
        )
        model.fit(train[:, varies], target)
        probabilities[:] = 0.0
        probabilities[:, model.classes_] = model.predict_proba(test[:, varies])
    # Mix with the prior to bound the loss of a single row.
    return (1 - _PRIOR_WEIGHT) * probabilities + _PRIOR_WEIGHT * prior


def _smoothed_frequencies(target: IntArray, n_classes: int) -> FloatArray:
    return (np.bincount(target, minlength=n_classes) + 1.0) / (len(target) + n_classes)


def _varying_columns(inputs: FloatArray) -> NDArray[np.bool_]:
    """Columns with at least two distinct non-missing entries."""
    missing = np.isnan(inputs)
    low = np.where(missing, np.inf, inputs).min(axis=0)
    high = np.where(missing, -np.inf, inputs).max(axis=0)
    return high > low


def log_loss_bits(probabilities: FloatArray, target: IntArray) -> FloatArray:
    """Log loss of each row, in bits.

    Examples
    --------
    >>> log_loss_bits(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0])).tolist()
    [1.0, 2.0]
    """
    return -np.log2(probabilities[np.arange(len(target)), target])


def as_classes(values: Any, n_bins: int = 3, max_classes: int = 8) -> IntArray:
    """Discretize values: keep up to ``max_classes`` levels, else use quantile bins.

    If one level accounts for more than half of the values, the rarest levels are merged instead.

    Examples
    --------
    >>> as_classes(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2]
    """
    codes = encode(np.asarray(values))
    n_levels = int(codes.max()) + 1
    if n_levels <= max_classes:
        return codes.astype(np.intp)
    counts = np.bincount(codes)
    if counts.max() <= len(codes) // 2:
        midpoint = np.cumsum(counts) - counts / 2
        return np.minimum((midpoint[codes] * n_bins / len(codes)).astype(np.intp), n_bins - 1)
    frequent = np.argsort(-counts)[: max_classes - 1]
    lookup = np.full(n_levels, max_classes - 1)
    lookup[frequent] = np.arange(len(frequent))
    return np.unique(lookup[codes], return_inverse=True)[1].astype(np.intp)
