"""What training rows show before a policy is trained: relevant units, and the gains of predictors.

Uninformative columns make the policy noisy long before they impair a predictor. Screening keeps the
units with a significant effect on the target, alone or together with one other. Their number
can be limited, since a policy that chooses among many relevant units overfits few rows. Screening
is one global choice made on the training rows, before any network is trained, so it cannot leak:
the network is trained on the kept units alone and then extended to all units, of which it never
selects or reads the others.

The tests compare counts in quantile bins and train no network. They cover the effect of a column
alone and the interaction of two columns.

A policy that is trained on noise learns to reveal what its predictors have memorised; `informative`
tests for it before the policy is trained. `interactions` estimates which units are informative
jointly, for the exploration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincc
from scipy.stats import t as student
from torch import Tensor

from suwr.data.stored import mapped_array
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.data import BLOCK_ROWS, Folds, Rows
from suwr.training.validation import Task

__all__ = [
    "FALSE_COLUMNS", "FALSE_PAIRS", "Screening", "informative", "interactions", "relevant_units",
    "unit_scores", "unit_scores_of_rows",
]  # fmt: skip

FloatArray = NDArray[np.float64]

# Expected number of uninformative columns and pairs of columns with a score below 1.
FALSE_COLUMNS, FALSE_PAIRS = 2.0, 1.0
# Quantile bins of a column and of a numeric target.
N_BINS = 3
# Encoded values up to which pairs are tested.
MAX_PAIRED = 2_000


def unit_scores_of_rows(inputs: MaskedInputs, rows: Rows) -> FloatArray:
    """`unit_scores` of the units of encoded rows; positions in bins follow from other values."""
    tested = slice(None) if inputs.pieces is None else np.flatnonzero(~inputs.pieces.cpu().numpy())
    targets = rows.targets.cpu().numpy()
    target = _classes(targets) if targets.shape[1] > 1 else _bins(targets[:, 0])
    of_value = inputs.membership[:, inputs.column_of].cpu().numpy()[:, tested]
    # Values that were not recorded are a level of their own.
    values = np.nan_to_num(rows.values.cpu().numpy()[:, tested].astype(np.float64), nan=-1e30)
    return unit_scores(values, np.asarray(target, dtype=np.intp), of_value)


def unit_scores(
    values: FloatArray, target: NDArray[np.intp], membership: NDArray[np.bool_]
) -> FloatArray:
    """Evidence against each unit being independent of the target, alone or with one other unit.

    Parameters
    ----------
    values : ndarray of shape (n, n_values)
        Encoded rows.
    target : ndarray of int, shape (n,)
        Classes, or bins of a numeric target.
    membership : ndarray of bool, shape (n_units, n_values)
        Encoded values of each unit.

    Returns
    -------
    ndarray of shape (n_units,)
        The smaller, the stronger the evidence. If no column is informative, at most
        ``FALSE_COLUMNS * s`` columns and ``FALSE_PAIRS * s`` pairs are expected to score below *s*.
    """
    bins = [_bins(column) for column in values.T]
    starts = np.cumsum([0, *(int(b.max()) + 1 for b in bins)])
    one_hot = np.zeros((len(values), starts[-1]), dtype=np.float32)
    for start, column in zip(starts, bins, strict=False):
        one_hot[np.arange(len(values)), start + column] = 1.0
    width = np.diff(starts)
    n_values, n_classes = len(bins), int(target.max()) + 1
    marginal = _marginal_p_values(one_hot, target, starts, width, n_classes)
    score = marginal * n_values / FALSE_COLUMNS
    if 1 < n_values <= MAX_PAIRED:
        pairs = _pair_p_values(one_hot, target, starts, width, n_classes)
        # Two encodings of one unit, such as two categories, always interact.
        related = membership.T.astype(np.float32) @ membership.astype(np.float32) > 0
        pairs[related] = 1.0
        n_pairs = n_values * (n_values - 1) / 2
        score = np.minimum(score, pairs.min(axis=1) * n_pairs / FALSE_PAIRS)
    return np.where(membership, score, np.inf).min(axis=1)


def _bins(column: FloatArray) -> NDArray[np.intp]:
    """Quantile bins of a column, numbered from 0; its values if there are few.

    Equal values share their mean rank, so that a value that most rows have, such as the zero of a
    count, does not end up in one bin with all larger values.
    """
    levels, codes = np.unique(column, return_inverse=True)
    if len(levels) > N_BINS:
        counts = np.bincount(codes)
        mean_rank = (np.cumsum(counts) - counts / 2) / len(column)
        codes = np.unique((N_BINS * mean_rank).astype(np.intp), return_inverse=True)[1][codes]
    return codes.reshape(-1)


def _classes(targets: NDArray[np.float32]) -> NDArray[np.intp]:
    """Classes of one-hot or soft targets, for the tests of independence.

    The most probable class alone says little where one class is the most probable almost
    everywhere. The rows of each class are therefore divided at the median of its probability, if
    that varies.
    """
    most, probable = targets.argmax(axis=1), targets.max(axis=1)
    median = np.zeros(targets.shape[1], dtype=targets.dtype)
    for c in np.unique(most):
        median[c] = np.median(probable[most == c])
    return np.unique(2 * most + (probable > median[most]), return_inverse=True)[1].reshape(-1)


def _entropy_sum(counts: FloatArray) -> FloatArray:
    """``n log n`` with 0 for empty cells."""
    return counts * np.log(np.maximum(counts, 1.0))


def _marginal_p_values(
    one_hot: NDArray[np.float32],
    target: NDArray[np.intp],
    starts: NDArray[np.intp],
    width: NDArray[np.intp],
    n_classes: int,
) -> FloatArray:
    """p-values of likelihood-ratio tests of independence between each column and the target."""
    counts = np.stack([one_hot[target == c].sum(axis=0) for c in range(n_classes)]).astype(float)
    by_cell = _entropy_sum(counts).sum(axis=0) - _entropy_sum(counts.sum(axis=0))
    by_column = np.add.reduceat(by_cell, starts[:-1])
    classes = np.bincount(target, minlength=n_classes).astype(float)
    constant = _entropy_sum(classes).sum() - _entropy_sum(classes.sum())
    return _chi2_sf(2 * (by_column - constant), (width - 1) * (n_classes - 1))


def _pair_p_values(
    one_hot: NDArray[np.float32],
    target: NDArray[np.intp],
    starts: NDArray[np.intp],
    width: NDArray[np.intp],
    n_classes: int,
) -> FloatArray:
    """p-values of the interaction of two columns in their effect on the target, for all pairs.

    The statistic is the mutual information of the target with both columns, less that with each
    of them, corrected for the dependence of the columns on one another.
    """
    by_class = [one_hot[target == c] for c in range(n_classes)]
    total = np.zeros((starts[-1], starts[-1]))
    cells = np.zeros_like(total)
    for part in by_class:
        joint = (part.T @ part).astype(np.float64)
        total += joint
        cells += _entropy_sum(joint)
    cells -= _entropy_sum(total)
    pair = np.add.reduceat(np.add.reduceat(cells, starts[:-1], axis=0), starts[:-1], axis=1)
    # The cells of the diagonal blocks are those of single columns.
    alone = np.diag(pair)
    classes = np.array([len(part) for part in by_class], dtype=float)
    constant = _entropy_sum(classes).sum() - _entropy_sum(classes.sum())
    statistic = 2 * (pair - alone[:, None] - alone[None, :] + constant)
    freedom = np.outer(width - 1, width - 1) * (n_classes - 1)
    result = _chi2_sf(statistic, freedom)
    np.fill_diagonal(result, 1.0)
    return result


def _chi2_sf(statistic: FloatArray, freedom: NDArray[np.intp]) -> FloatArray:
    """Survival function of the chi-squared distribution; 1 without degrees of freedom."""
    p = gammaincc(np.maximum(freedom, 1) / 2.0, np.maximum(statistic, 0.0) / 2.0)
    return np.where(freedom > 0, p, 1.0)


# Probability of finding evidence in a table without any.
LEVEL = 0.02
# Rows of each fold that are tested, and number of training rows that a test needs.
EVIDENCE_ROWS, MIN_ROWS = 2_000, 30
# Predictors whose loss on their own training rows is lower than a constant's by less than this
# fraction have not learned enough to be tested.
MIN_TRAINING_GAIN = 0.05
# Masks evaluated to estimate the interactions, and bounds of the rows of each fold among them.
INTERACTION_MASKS = 60_000
INTERACTION_ROWS = (50, 300)
# Largest number of units that are revealed at random before an interaction is measured.
CONTEXT_UNITS = 3


@torch.no_grad()
def informative(network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds) -> Tensor:
    """Whether there is evidence that features are informative.

    There is none if the predictors have learned their training rows, but their predictions for the
    held-out fold, from all features, are not correlated with the targets there. The loss would be
    too strict a criterion: with few rows, predictors are overconfident, and worse than a constant
    although their predictions are informative. Fewer than `MIN_ROWS` rows are not tested.

    Parameters
    ----------
    network : SeparateNetwork
        With pretrained predictors.
    inputs : MaskedInputs
    loss : Loss
    folds : Folds

    Returns
    -------
    Tensor of bool, shape ()
    """
    network.eval()
    rows = folds.rows[folds.indices[:, :EVIDENCE_ROWS]]
    nothing = torch.zeros((*rows.weight.shape, inputs.n_columns), dtype=torch.bool)
    nothing = nothing.to(rows.device)
    cross_fitted = network.cross_fitted(inputs.reveal(rows.values, ~nothing), loss)
    own = [
        loss.of_prediction(network.in_fold(inputs.reveal(rows.values, mask), loss), rows.targets)
        for mask in (nothing, ~nothing)
    ]
    network.train()
    learned = ((own[0] - own[1]) * rows.weight).mean() > MIN_TRAINING_GAIN
    products = (_centred(cross_fitted) * _centred(rows.targets)).sum(dim=-1) * rows.weight
    n = products.numel()
    if n < MIN_ROWS:
        return torch.ones_like(learned)
    # Half of the rows count: an effect that two folds share by chance contributes to the covariance
    # of either, since each of them trains predictors that are tested on the other.
    error = products.std() / (n / 2) ** 0.5
    statistic = products.mean() / error.clamp_min(torch.finfo(error.dtype).tiny)
    return (statistic > float(student.isf(LEVEL, n / 2 - 1))) | ~learned


def _centred(values: Tensor) -> Tensor:
    """Values of each fold ``(n_folds, n, n_outputs)`` minus their mean.

    Numeric targets and their predictions are replaced by ranks, since a few outliers would dominate
    the covariance.
    """
    if values.shape[-1] == 1:
        numbers = values[..., 0].contiguous()
        ordered = numbers.sort(dim=1).values
        # Equal values share their mean rank.
        ranks = [torch.searchsorted(ordered, numbers, right=right) for right in (False, True)]
        values = (ranks[0] + ranks[1]).to(values.dtype).unsqueeze(-1)
    return values - values.mean(dim=1, keepdim=True)


@torch.no_grad()
def interactions(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds, label_weight: float
) -> Tensor:
    """How much more two units reduce the loss together than separately.

    The mean over rows and random contexts of ``g(i, j) - g(i) - g(j)``, with ``g`` the reduction of
    the cross-fitted loss, where it is positive.

    Returns
    -------
    Tensor of shape (n_units, n_units)
    """
    network.eval()
    n_units = inputs.n_units
    pairs = torch.combinations(torch.arange(n_units, device=folds.indices.device))
    least, most = INTERACTION_ROWS
    size = min(folds.size, max(least, min(most, INTERACTION_MASKS // max(1, len(pairs)))))
    rows = folds.rows[folds.indices[:, :size]]
    everything = torch.ones((*rows.weight.shape, inputs.n_columns), dtype=torch.bool)
    everything = everything.to(rows.device)
    targets = network.in_fold(inputs.reveal(rows.values, everything), loss)
    targets = targets.lerp(rows.targets, label_weight)
    context = inputs.random_masks(tuple(rows.weight.shape), folds.generator, CONTEXT_UNITS)

    def losses(units: Tensor) -> Tensor:
        mask = context
        for unit in units:
            mask = inputs.add(mask, unit)
        found = network.cross_fitted(inputs.reveal(rows.values, mask), loss)
        losses = loss.of_prediction(found, targets) * rows.weight
        return losses.mean()

    empty = losses(pairs.new_empty(0))
    units = torch.arange(n_units, device=rows.device).unsqueeze(1)
    single = torch.stack([empty - losses(unit) for unit in units])
    result = torch.zeros(n_units, n_units, device=rows.device)
    for i, j in pairs.tolist():
        joint = empty - losses(pairs.new_tensor([i, j]))
        result[i, j] = result[j, i] = joint - single[i] - single[j]
    network.train()
    return result.clamp_min(0.0)


# Tables of at most this many units are not screened.
MIN_UNITS = 16
# Fewest units that are kept, by the smallest p-values.
MIN_KEPT = 10
# Multiples of this fraction are evenly spread over [0, 1), however many there are.
GOLDEN_RATIO = 0.6180339887
# Rows that are tested.
MAX_ROWS = 20_000
# Size up to which restricted rows are held in memory instead of a mapped file.
MAX_BYTES = 2**30


def relevant_units(scores: NDArray[np.float64], limit: int | None = None) -> NDArray[np.bool_]:
    """Units with a significant effect on the target, alone or together with one other.

    Parameters
    ----------
    scores : ndarray of shape (n_units,)
        See `unit_scores`.
    limit : int, optional
        Largest number of units; those with the strongest evidence are kept.

    Returns
    -------
    ndarray of bool, shape (n_units,)

    Examples
    --------
    >>> relevant_units(np.full(50, 3.0)).sum()
    np.int64(10)
    >>> relevant_units(np.linspace(0.0, 0.5, 50), limit=20).nonzero()[0].max()
    np.int64(19)
    """
    kept = scores < 1.0
    kept[np.argsort(scores, kind="stable")[:MIN_KEPT]] = True
    if limit is not None and kept.sum() > limit:
        # p-values too small for a float are equal; such units are taken from the whole table.
        spread = np.arange(len(scores)) * GOLDEN_RATIO % 1.0
        kept[np.lexsort((spread, scores))[limit:]] = False
    return np.asarray(kept)


@dataclass(frozen=True)
class Screening:
    """The units that were kept, and the problem restricted to them.

    Attributes
    ----------
    inputs : MaskedInputs
        All units.
    kept : Tensor of bool, shape (n_units,)
    """

    inputs: MaskedInputs
    kept: Tensor

    @classmethod
    def of(
        cls,
        inputs: MaskedInputs,
        rows: Rows,
        generator: torch.Generator,
        limit: int | None = None,
    ) -> Screening | None:
        """Screen the units of a table; None if all of them are kept.

        Parameters
        ----------
        inputs : MaskedInputs
        rows : Rows
        generator : torch.Generator
            Draws the rows that are tested.
        limit : int, optional
            See `relevant_units`.
        """
        if inputs.n_units <= MIN_UNITS:
            return None
        index = torch.randperm(len(rows), generator=generator, device=rows.device)[:MAX_ROWS]
        scores = unit_scores_of_rows(inputs, rows[index.sort().values])
        kept = relevant_units(scores, limit)
        if kept.all():
            return None
        return cls(inputs, torch.as_tensor(kept, device=rows.device))

    @property
    def n_kept(self) -> int:
        """Number of kept units."""
        return int(self.kept.sum())

    @property
    def columns(self) -> Tensor:
        """Columns of the kept units, as numbers."""
        return torch.nonzero(self.inputs.membership[self.kept].any(dim=0))[:, 0]

    @property
    def values(self) -> Tensor:
        """Encoded values of the kept columns, as numbers."""
        return torch.nonzero(torch.isin(self.inputs.column_of, self.columns))[:, 0]

    def restrict(self, task: Task) -> Task:
        """The learning problem of the kept units."""
        inputs = self.inputs.subset(self.kept, self.columns, self.values)
        rows, validation = (self._restrict_rows(part) for part in (task.rows, task.validation))
        if task.lesson is not None:
            lesson = replace(
                task.lesson,
                rows=self._restrict_rows(task.lesson.rows),
                validation=self._restrict_rows(task.lesson.validation),
            )
            task = replace(task, lesson=lesson)
        return replace(task, inputs=inputs, rows=rows, validation=validation)

    def _restrict_rows(self, rows: Rows) -> Rows:
        if rows.costs is not None:
            rows = replace(rows, costs=rows.costs[:, self.kept])
        index = self.values.to(rows.values.device)
        shape = (len(rows), len(index))
        if rows.values.is_cuda or 4 * shape[0] * shape[1] <= MAX_BYTES:
            return replace(rows, values=rows.values[:, index])
        values = torch.from_numpy(mapped_array(shape))
        for start in range(0, len(rows), BLOCK_ROWS):
            place = slice(start, start + BLOCK_ROWS)
            values[place] = rows.values[place][:, index]
        return replace(rows, values=values)

    def restrict_architecture(self, architecture: Architecture) -> Architecture:
        """The architecture of a network for the kept units."""
        return replace(
            architecture,
            n_values=len(self.values),
            n_columns=len(self.columns),
            n_units=self.n_kept,
        )

    @torch.no_grad()
    def extend(self, network: Network, architecture: Architecture) -> SeparateNetwork:
        """The network of all units that decides and predicts like that of the kept units.

        The weights of all other inputs are 0; the other units must not be available.
        """
        assert isinstance(network, SeparateNetwork)
        full = SeparateNetwork(architecture).to(network.stop_temperature.device)
        full.stop_temperature.copy_(network.stop_temperature)
        kept = torch.cat([self.values, architecture.n_values + self.columns])
        condition = architecture.n_inputs + torch.arange(
            architecture.n_conditions, device=kept.device
        )
        for source, target, inputs in (
            (network.policy, full.policy, torch.cat([kept, condition])),
            (network.predictor, full.predictor, kept),
        ):
            assert isinstance(source, EnsembleMLP)
            assert isinstance(target, EnsembleMLP)
            for old, new in zip(source.parameters(), target.parameters(), strict=True):
                if old.shape == new.shape:
                    new.copy_(old)
            target.weights[0].zero_()
            target.weights[0][:, inputs] = source.weights[0]
            if source is network.policy:
                heads = torch.cat([self.kept.new_ones(1), self.kept])
                for old, new in (
                    (source.weights[-1], target.weights[-1]),
                    (source.biases[-1], target.biases[-1]),
                ):
                    new.zero_()
                    new[..., heads] = old
        return full
