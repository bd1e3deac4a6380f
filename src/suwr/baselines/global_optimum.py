"""The best global selection of a small discrete table, by enumeration of all subsets.

One subset for all rows minimises the training loss + λ ‖h‖, with the mean of each cell as
prediction. No global selection has a lower objective on that table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr._utils.validation import Interval, Options, parameter
from suwr.baselines.base import FixedSelector, PhaseBuilders
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.exceptions import ProblemTooLargeError
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase

# Largest number of units whose subsets are enumerated.
MAX_UNITS = 16


class CellMeans(nn.Module):
    """Mean target of every combination of values; the overall mean for unseen combinations.

    Parameters
    ----------
    rows : Rows
    selected : Tensor of bool, shape (n_values,)
        The encoded values that define a cell.
    """

    def __init__(self, rows: Rows, selected: Tensor) -> None:
        super().__init__()
        self.selected = selected
        # A constant column, so that the empty subset has one cell.
        keys = torch.nn.functional.pad(rows.values[:, selected], (0, 1))
        cells, cell_of_row = keys.unique(dim=0, return_inverse=True)
        device, weight = cell_of_row.device, rows.weight.unsqueeze(1)
        total_weight = torch.zeros(len(cells), device=device).index_add(0, cell_of_row, rows.weight)
        total = torch.zeros(len(cells), rows.targets.shape[1], device=device)
        total = total.index_add(0, cell_of_row, rows.targets * weight)
        self.mean = total / total_weight.unsqueeze(1)
        self.overall = (rows.targets * weight).sum(dim=0) / rows.weight.sum()
        self.cells = {tuple(cell): i for i, cell in enumerate(cells[:, :-1].tolist())}

    def forward(self, values: Tensor) -> Tensor:
        """Predictions, ``(n, n_outputs)``."""
        keys = [self.cells.get(tuple(row), -1) for row in values[:, self.selected].tolist()]
        index = torch.tensor(keys, device=values.device)
        means = self.mean[index.clamp_min(0)]
        return torch.where((index >= 0).unsqueeze(1), means, self.overall)


class SubsetSearch(Phase):
    """A phase with a single epoch, which sets the best subset and its predictions."""

    name = "subsets"

    def __init__(self, model: BaseGlobalOptimum, data: TrainingData) -> None:
        super().__init__(1)
        self.model, self.data = model, data

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        model, data, rows = self.model, self.data, self.data.rows
        n_units, costs = data.inputs.n_units, model.units_.costs
        if n_units > MAX_UNITS:
            raise ProblemTooLargeError(
                f"{type(model).__name__} enumerates the subsets of at most {MAX_UNITS} units. "
                f"Got {n_units} units."
            )
        model.sparsity_weight_ = model._resolve_weight(model.sparsity_weight)
        unit_costs = costs * model.sparsity_weight_ / model.constant_loss_
        most = model.max_steps
        sizes = range(n_units + 1) if most is None else [min(most, n_units)]
        best = float("inf")
        for subset in (s for size in sizes for s in combinations(range(n_units), size)):
            columns = data.inputs.membership[list(subset)].any(dim=0)
            cells = CellMeans(rows, columns[data.inputs.column_of])
            losses = data.loss.of_prediction(cells(rows.values), rows.targets)
            cost = float(unit_costs[list(subset)].sum())
            objective = float((losses * rows.weight).mean()) + cost
            if objective < best - 1e-9:
                best, model.network_ = objective, cells
                model.selected_units_ = np.array(subset, dtype=np.intp)
        return Metrics(best, mean_cost=float(costs[model.selected_units_].sum()))


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGlobalOptimum(FixedSelector):
    """The best subset for classes and values."""

    max_steps: int | None = parameter(None, None, Interval(Integral, 0))
    sparsity_weight: float | Literal["auto"] = parameter("auto", Options("auto"), Interval(Real, 0))

    def _split_rows(
        self, target: NDArray[Any], rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        # The search needs no validation rows.
        every_row = np.arange(len(target))
        return every_row, every_row

    def _n_epochs(self) -> int:
        return 1

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        return [lambda: SubsetSearch(self, data)]

    def _final_predictions(self, values: Tensor) -> Tensor:
        return self.network_(values)


class GlobalOptimumClassifier(TableClassifier, BaseGlobalOptimum):
    """The best subset of columns for all rows, for small tables with few distinct values.

    Parameters
    ----------
    max_steps : int or None, default=None
        Select exactly this many units; None trades off loss and cost by ``sparsity_weight``.
    sparsity_weight : float or 'auto', default='auto'
        λ, the price of one unit of feature cost, in the units of the loss; 'auto' is 1 % of the
        loss of the best constant prediction.
    groups, costs
        As in `suwr.SUWRClassifier`. At most 16 units are supported.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        Ignored, since no network is trained; accepted for a uniform interface.

    Attributes
    ----------
    selected_units_ : ndarray of int
        Indices of the selected units.
    sparsity_weight_ : float
        The value of λ used for the search.

    Examples
    --------
    >>> from suwr.baselines import GlobalOptimumClassifier
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
    >>> clf = GlobalOptimumClassifier().fit(X, [0, 0, 1, 1] * 5)
    >>> clf.selected_units_.tolist(), clf.predict([[1, 0]]).tolist()
    ([0], [1])
    """


class GlobalOptimumRegressor(TableRegressor, BaseGlobalOptimum):
    """The best subset of columns for squared error; see `GlobalOptimumClassifier`.

    Examples
    --------
    >>> from suwr.baselines import GlobalOptimumRegressor
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
    >>> reg = GlobalOptimumRegressor().fit(X, [0.0, 0.0, 3.0, 3.0] * 5)
    >>> reg.selected_units_.tolist(), reg.predict([[1, 0]]).tolist()
    ([0], [3.0])
    """
