"""Screening of wide tables: which units are worth considering at all.

Uninformative columns make the policy noisy long before they impair a predictor. Screening keeps the
units with a marginal effect on the target, or with an interaction of two columns, by tests of
independence in tables of quantile bins. It is one global choice made on the training rows, before
any network is trained, so it cannot leak: the network is trained on the kept units alone and then
extended to all units, of which it never selects or reads the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincc
from torch import Tensor

from suwr.data.stored import mapped_array
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.data import BLOCK_ROWS, Rows
from suwr.training.trainer import Task

__all__ = ["Screening", "relevant_units"]

FloatArray = NDArray[np.float64]

# Tables of at most this many units are not screened.
MIN_UNITS = 16
# Fewest units that are kept, by the smallest p-values.
MIN_KEPT = 10
# Expected number of uninformative columns and pairs of columns that are kept.
FALSE_COLUMNS, FALSE_PAIRS = 2.0, 1.0
# Quantile bins of a column and of a numeric target.
N_BINS = 3
# Rows that are tested, and encoded values up to which pairs are.
MAX_ROWS, MAX_PAIRED = 20_000, 2_000
# Size up to which restricted rows are held in memory instead of a mapped file.
MAX_BYTES = 2**30


def relevant_units(
    values: FloatArray, target: NDArray[np.intp], membership: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Units with a significant effect on the target, alone or together with one other.

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
    ndarray of bool, shape (n_units,)
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
    unit_score = np.where(membership, score, np.inf).min(axis=1)
    kept = unit_score < 1.0
    kept[np.argsort(unit_score, kind="stable")[:MIN_KEPT]] = True
    return np.asarray(kept)


def _bins(column: FloatArray) -> NDArray[np.intp]:
    """Quantile bins of a column, numbered from 0; its values if there are few.

    A value that more rows have than a bin would hold, such as zero in a column of counts, is a bin
    of its own: quantiles of all rows would not divide the other values.
    """
    levels, counts = np.unique(column, return_counts=True)
    if len(levels) <= N_BINS:
        return np.searchsorted(levels, column)
    common = column == levels[counts.argmax()]
    alone = counts.max() * N_BINS > len(column)
    rest, n_bins = (column[~common], N_BINS - 1) if alone else (column, N_BINS)
    edges = np.unique(np.quantile(rest, np.arange(1, n_bins) / n_bins))
    bins = np.searchsorted(edges, column, side="right")
    if alone:
        bins[common] = N_BINS
    return np.unique(bins, return_inverse=True)[1].reshape(-1)


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
    def of(cls, inputs: MaskedInputs, rows: Rows, generator: torch.Generator) -> Screening | None:
        """Screen the units of a table; None if all of them are kept."""
        if inputs.n_units <= MIN_UNITS:
            return None
        index = torch.randperm(len(rows), generator=generator, device=rows.device)[:MAX_ROWS]
        sample = rows[index.sort().values]
        targets = sample.targets.cpu().numpy()
        target = _classes(targets) if targets.shape[1] > 1 else _bins(targets[:, 0])
        of_value = inputs.membership[:, inputs.column_of].cpu().numpy()
        values = sample.values.cpu().numpy().astype(np.float64)
        kept = relevant_units(values, np.asarray(target, dtype=np.intp), of_value)
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
        return replace(task, inputs=inputs, rows=rows, validation=validation)

    def _restrict_rows(self, rows: Rows) -> Rows:
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
            int(architecture.conditioned), device=kept.device
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
