"""Reference methods: a predictor on every or on known columns, and the best global selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples
from torch import Tensor, nn

from suwr._utils.validation import Interval, Options, must_error, parameter, parameter_error
from suwr.baselines.base import (
    BaseSelector,
    FixedSelector,
    PhaseBuilders,
    predictor_phase,
)
from suwr.data.stored import name_columns
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData, image_shape
from suwr.exceptions import ProblemTooLargeError
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase


@dataclass(kw_only=True, eq=False, repr=False)
class BaseAllFeatures(FixedSelector):
    """A predictor that reads every column."""

    network: Literal["mlp", "conv"] = "mlp"

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.selected_units_ = np.arange(data.inputs.n_units)
        shape, schedule = image_shape(self.network, self.groups), self._schedule(data)
        network = self.network_ = self._build_network(data, 0.2, image_shape=shape)
        full = torch.ones(1, data.inputs.n_columns, dtype=torch.bool, device=self.device_)
        return [
            lambda: predictor_phase(network, data, folds, lambda n: full.expand(n, -1), schedule)
        ]


class AllFeaturesClassifier(TableClassifier, BaseAllFeatures):
    """No selection: a classifier that reads every column.

    Its network is that of the predictors of the other methods.

    Parameters
    ----------
    groups, costs
        As in `suwr.SUWRClassifier`; they only affect `cost`.
    network : {'mlp', 'conv'}, default='mlp'
        'conv' is a convolutional network; it requires ``groups`` to be `Patches`, which define the
        image shape.
    hidden_size, n_layers : int, default=128, 3
        Width and number of the hidden layers.
    max_epochs : int, default=100
        Maximum number of epochs. The weights of the best epoch by validation loss are kept.
    patience : int or None, default=None
        Number of epochs without improvement on the validation rows after which training stops.
        None disables early stopping.
    batch_size : int or 'auto', default='auto'
        'auto' chooses it by the number of rows.
    learning_rate : float, default=1e-3
        Initial learning rate; follows a cosine down to a tenth of it.
    validation_fraction : float, default=0.1
        Fraction of the rows that is held out for validation.
    device : str, default='auto'
        A torch device. 'auto' is CUDA if available, otherwise the CPU.
    random_state : int, RandomState or None, default=None
        Seed of the split, the initial weights and the batches.
    verbose : int or None, default=None
        0 is silent, 1 shows a progress bar, 2 prints a line per epoch. None shows a progress bar in
        a terminal and in a notebook.

    Attributes
    ----------
    selected_units_ : ndarray of int
        Indices of all units.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import AllFeaturesClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = AllFeaturesClassifier(max_epochs=5, random_state=0).fit(X, y)
    >>> bool(clf.select(X).all())
    True
    """


class AllFeaturesRegressor(TableRegressor, BaseAllFeatures):
    """No selection: a regressor that reads every column; see `AllFeaturesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import AllFeaturesRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = AllFeaturesRegressor(max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """


@dataclass(frozen=True)
class OracleData(TrainingData):
    """Training data with the relevant columns of each row of the user's table, ``(n, d)``."""

    relevant: NDArray[np.bool_]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseOracle(BaseSelector):
    """A predictor of given masks."""

    relevant: Callable[[Any], ArrayLike] | Sequence[int | str] | None = None

    def _training_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, costs: Any = None
    ) -> OracleData:
        data = super()._training_data(X, y, sample_weight, costs)
        return OracleData(**vars(data), relevant=self._relevant_masks(X))

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        assert isinstance(data, OracleData)
        relevant = torch.as_tensor(data.relevant, device=self.device_)
        masks = relevant[data.row_numbers], relevant[data.validation_numbers]
        network = self.network_ = self._build_network(data, dropout=0.2)
        return [lambda: predictor_phase(network, data, folds, masks, self._schedule(data))]

    def _relevant_masks(self, X: Any) -> NDArray[np.bool_]:
        """Relevant columns of each row, extended to whole units."""
        n, names = _num_samples(X), name_columns(self)
        if callable(self.relevant):
            masks = np.asarray(self.relevant(X))
            if masks.dtype != bool or masks.shape != (n, len(names)):
                must = f"return booleans of shape {(n, len(names))}"
                got = f"{masks.dtype} of shape {masks.shape}"
                raise must_error("relevant", type(self).__name__, must, got)
        else:
            masks = np.zeros((n, len(names)), dtype=bool)
            masks[:, self._relevant_columns(names)] = True
        membership = self.units_.membership.astype(np.float32)
        units = masks.astype(np.float32) @ membership.T > 0
        return units.astype(np.float32) @ membership > 0

    def _relevant_columns(self, names: list[str]) -> list[int]:
        """Indices of the columns that are relevant for every row."""
        if self.relevant is None or callable(self.relevant):
            return list(range(len(names)))
        places = {key: place for place, name in enumerate(names) for key in (name, place)}
        for column in self.relevant:
            if column not in places:
                expected = "a callable or a sequence of columns of X"
                raise parameter_error("relevant", type(self).__name__, expected, column)
        return [places[column] for column in self.relevant]

    def _selected_units(self, X: Any) -> NDArray[np.bool_]:
        self._read(X)
        membership = self.units_.membership.astype(np.float32)
        n_hidden = (~self._relevant_masks(X)).astype(np.float32) @ membership.T
        return n_hidden == 0

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        return self._predict_with(self._read(X), self._relevant_masks(X))


class OracleClassifier(TableClassifier, BaseOracle):
    """A known selection: a classifier that reads the relevant columns of each row.

    Whether the selection leaks depends on ``relevant``.

    Parameters
    ----------
    relevant : callable, sequence of columns or None, default=None
        A function of X that returns booleans of shape (n, d), or the columns that are relevant for
        every row. None means all columns.
    groups, costs, hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, \
validation_fraction, device, random_state, verbose
        As in `AllFeaturesClassifier`. A unit that contains a relevant column is selected as a
        whole.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.baselines import OracleClassifier
    >>> X = np.random.RandomState(0).randn(200, 3)
    >>> y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    >>> clf = OracleClassifier(relevant=[1, 2], max_epochs=2, random_state=0).fit(X, y)
    >>> clf.select(X).all(axis=0).tolist()
    [False, True, True]
    """


class OracleRegressor(TableRegressor, BaseOracle):
    """A known selection for squared error; see `OracleClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.baselines import OracleRegressor
    >>> X = np.random.RandomState(0).randn(200, 3)
    >>> def by_sign(X):
    ...     positive = np.asarray(X)[:, 0] > 0
    ...     return np.column_stack([np.ones_like(positive), positive, ~positive])
    >>> reg = OracleRegressor(relevant=by_sign, max_epochs=1, random_state=0)
    >>> y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    >>> bool((reg.fit(X, y).select(X) == by_sign(X)).all())
    True
    """


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
