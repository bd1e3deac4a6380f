"""The best global selection of a small discrete table, by brute force.

One subset for all rows, chosen to minimise the training loss + λ ‖h‖ over every subset, with the
mean of each cell as prediction: what no global method can beat on the table itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from suwr.baselines.base import COMMON_CONSTRAINTS, BaseGlobal
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.exceptions import ProblemTooLargeError
from suwr.training.data import Rows
from suwr.training.loop import Epoch, Metrics, Progress

__all__ = ["GlobalOptimumClassifier", "GlobalOptimumRegressor"]

MAX_UNITS = 16


class CellMeans(nn.Module):
    """The mean target of every combination of values; the overall mean where there is none.

    Parameters
    ----------
    rows : Rows
    shown : Tensor of bool, shape (n_values,)
    """

    def __init__(self, rows: Rows, shown: Tensor) -> None:
        super().__init__()
        self.shown = shown
        # A column of zeros, so that rows of which nothing is shown are one cell.
        seen = torch.nn.functional.pad(rows.values[:, shown], (0, 1))
        cells, number = seen.unique(dim=0, return_inverse=True)
        weight = torch.zeros(len(cells), device=number.device).index_add(0, number, rows.weight)
        total = torch.zeros(len(cells), rows.targets.shape[1], device=number.device)
        total = total.index_add(0, number, rows.targets * rows.weight.unsqueeze(1))
        self.mean = total / weight.unsqueeze(1)
        self.overall = (rows.targets * rows.weight.unsqueeze(1)).sum(dim=0) / rows.weight.sum()
        self.cells = {tuple(cell): i for i, cell in enumerate(cells[:, :-1].tolist())}

    def forward(self, values: Tensor) -> Tensor:
        """Predictions, ``(n, n_outputs)``."""
        keys = [self.cells.get(tuple(row), -1) for row in values[:, self.shown].tolist()]
        index = torch.tensor(keys, device=values.device)
        known = self.mean[index.clamp_min(0)]
        return torch.where((index >= 0).unsqueeze(1), known, self.overall)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGlobalOptimum(BaseGlobal):
    """The best subset for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "n_units": [None, Interval(Integral, 0, None, closed="left")],
        "sparsity_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    }

    n_units: int | None = None
    sparsity_weight: float | Literal["auto"] = "auto"

    def _check_params(self) -> None:
        self._check_weight(self.sparsity_weight)

    def _split_rows(
        self, target: NDArray[Any], rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        # No network and no epochs: no rows are set aside.
        everything = np.arange(len(target))
        return everything, everything

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> nn.Module:
        units = len(self.units_)
        if units > MAX_UNITS:
            raise ProblemTooLargeError(
                f"{type(self).__name__} tries every subset of at most {MAX_UNITS} units. "
                f"Got {units} units."
            )
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        price = self.units_.costs * self.sparsity_weight_ / self.constant_loss_
        rows = data.rows
        sizes = range(units + 1) if self.n_units is None else [min(self.n_units, units)]
        best, found = float("inf"), None
        for subset in (s for size in sizes for s in combinations(range(units), size)):
            model = CellMeans(rows, self._shown(data, subset))
            lost = data.loss.of_prediction(model(rows.values), rows.targets)
            value = float((lost * rows.weight).mean()) + float(price[list(subset)].sum())
            if value < best - 1e-9:
                best, found, self.selected_units_ = value, model, np.array(subset, dtype=np.intp)
        assert found is not None
        progress(Epoch("subsets", 1, 1, Metrics(None, best)))
        return found

    def _shown(self, data: TrainingData, subset: tuple[int, ...]) -> Tensor:
        columns = data.inputs.membership[list(subset)].any(dim=0)
        return columns[data.inputs.column_of]

    def _final_outputs(self, values: Tensor) -> Tensor:
        return self.network_(values)


class GlobalOptimumClassifier(ClassificationTarget, BaseGlobalOptimum):
    """The best subset of columns for all rows alike, of a small table with few distinct values.

    Parameters
    ----------
    n_units : int or None, default=None
        Take exactly so many units; None weighs loss against cost.
    sparsity_weight : float or 'auto', default='auto'
        λ; 'auto' is 1 % of the loss of the best constant prediction.
    groups, costs
        As in `suwr.SUWRClassifier`. There may be 16 units at most.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        Taken for a common interface; there is no network.

    Attributes
    ----------
    selected_units_ : ndarray of int

    Examples
    --------
    >>> from suwr.baselines import GlobalOptimumClassifier
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
    >>> clf = GlobalOptimumClassifier().fit(X, [0, 0, 1, 1] * 5)
    >>> clf.selected_units_.tolist(), clf.predict([[1, 0]]).tolist()
    ([0], [1])
    """


class GlobalOptimumRegressor(RegressionTarget, BaseGlobalOptimum):
    """The best subset of columns for squared error; see `GlobalOptimumClassifier`.

    Examples
    --------
    >>> from suwr.baselines import GlobalOptimumRegressor
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
    >>> reg = GlobalOptimumRegressor().fit(X, [0.0, 0.0, 3.0, 3.0] * 5)
    >>> reg.selected_units_.tolist(), reg.predict([[1, 0]]).tolist()
    ([0], [3.0])
    """
