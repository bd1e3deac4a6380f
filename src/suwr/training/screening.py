"""Screening of wide tables: which units are worth considering at all.

Uninformative columns make the policy noisy long before they impair a predictor. Screening keeps the
units with a significant effect on the target, alone or together with one other; see
`suwr.training.independence`. Their number can be limited, since a policy that chooses among many
relevant units overfits few rows. Screening is one global choice made on the training rows, before
any network is trained, so it cannot leak: the network is trained on the kept units alone and then
extended to all units, of which it never selects or reads the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.data.stored import mapped_array
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.data import BLOCK_ROWS, Rows
from suwr.training.independence import unit_scores_of_rows
from suwr.training.trainer import Task

__all__ = ["Screening", "relevant_units"]

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
        if task.rows.costs is not None and task.validation.costs is not None:
            rows = replace(rows, costs=task.rows.costs[:, self.kept])
            validation = replace(validation, costs=task.validation.costs[:, self.kept])
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
