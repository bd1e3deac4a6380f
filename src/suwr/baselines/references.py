"""References: no selection at all, and the selection that an oracle knows to be right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _num_samples
from torch import Tensor

from suwr.baselines.base import COMMON_CONSTRAINTS, BaseBaseline, BaseGlobal
from suwr.baselines.networks import SelectorNetwork
from suwr.baselines.training import fit_predictor
from suwr.data.input import name_columns
from suwr.estimators.table_model import TrainingData, image_shape
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.training.data import Folds
from suwr.training.loop import Progress

__all__ = [
    "AllFeaturesClassifier",
    "AllFeaturesRegressor",
    "OracleClassifier",
    "OracleRegressor",
]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseAllFeatures(BaseGlobal):
    """A predictor that sees everything."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "network": [StrOptions({"mlp", "conv"})],
    }

    network: Literal["mlp", "conv"] = "mlp"

    def _check_params(self) -> None:
        image_shape(self.network, self.groups)

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        self.selected_units_ = np.arange(data.inputs.n_units)
        network = self._build(data, dropout=0.2, image_shape=image_shape(self.network, self.groups))
        everything = torch.ones(1, data.inputs.n_columns, dtype=torch.bool, device=self.device_)
        fit_predictor(
            network, data, Folds(data.rows, generator),
            lambda index: everything.expand(len(index), -1),
            everything.expand(len(data.validation), -1), self._schedule(data), progress,
        )  # fmt: skip
        return network


class AllFeaturesClassifier(ClassificationTarget, BaseAllFeatures):
    """No selection: a classifier that reads every column.

    The same network as the other methods' predictors, for comparison.

    Parameters
    ----------
    groups, costs
        As in `suwr.SUWRClassifier`; they matter for `cost` alone.
    network : {'mlp', 'conv'}, default='mlp'
        'conv' begins with convolutions; needs `Patches`, which say what shape the images have.
    hidden_size, n_layers : int, default=128, 3
    max_epochs : int, default=100
    patience : int or None, default=None
        Epochs without improvement on validation rows before training ends.
    batch_size : int or 'auto', default='auto'
    learning_rate : float, default=1e-3
    validation_fraction : float, default=0.1
    device : str, default='auto'
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import AllFeaturesClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = AllFeaturesClassifier(max_epochs=5, random_state=0).fit(X, y)
    >>> bool(clf.select(X).all())
    True
    """


class AllFeaturesRegressor(RegressionTarget, BaseAllFeatures):
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
class KnownData(TrainingData):
    """Training data with the masks that an oracle knows.

    Attributes
    ----------
    known : ndarray of bool, shape (n, d)
        For every row of the user's table.
    """

    known: NDArray[np.bool_]

    def masks(self, numbers: NDArray[np.intp]) -> Tensor:
        """Masks of the rows with these numbers, on the device."""
        return torch.as_tensor(self.known[numbers], device=self.rows.values.device)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseOracle(BaseBaseline):
    """A predictor under masks that are known beforehand."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "relevant": "no_validation",
    }

    relevant: Callable[[Any], ArrayLike] | Sequence[int | str] | None = None

    def _training_data(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> KnownData:
        data = super()._training_data(X, y, sample_weight)
        return KnownData(**vars(data), known=self._known(X))

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        assert isinstance(data, KnownData)
        mask = data.masks(data.row_numbers)
        network = self._build(data, dropout=0.2)
        fit_predictor(
            network, data, Folds(data.rows, generator), lambda index: mask[index],
            data.masks(data.validation_numbers), self._schedule(data), progress,
        )  # fmt: skip
        return network

    def _known(self, X: Any) -> NDArray[np.bool_]:
        """The relevant columns of each row, grown to whole units."""
        n, names = _num_samples(X), name_columns(self)
        if callable(self.relevant):
            known = np.asarray(self.relevant(X))
            if known.dtype != bool or known.shape != (n, len(names)):
                raise ValueError(
                    f"The 'relevant' parameter of {type(self).__name__} must return booleans of "
                    f"shape {(n, len(names))}. Got {known.dtype} of shape {known.shape} instead."
                )
        else:
            known = np.zeros((n, len(names)), dtype=bool)
            known[:, self._known_columns(names)] = True
        touched = known.astype(np.float32) @ self.units_.membership.T.astype(np.float32) > 0
        return touched.astype(np.float32) @ self.units_.membership.astype(np.float32) > 0

    def _known_columns(self, names: list[str]) -> list[int]:
        if self.relevant is None or callable(self.relevant):
            return list(range(len(names)))
        columns = []
        for column in self.relevant:
            if isinstance(column, str) and column in names:
                columns.append(names.index(column))
            elif isinstance(column, int | np.integer) and 0 <= column < len(names):
                columns.append(int(column))
            else:
                raise ValueError(
                    f"The 'relevant' parameter of {type(self).__name__} must name columns of X. "
                    f"Got {column!r} instead."
                )
        return columns

    def _choices(self, X: Any) -> NDArray[np.bool_]:
        self._read(X)
        membership = self.units_.membership.astype(np.float32)
        hidden = (~self._known(X)).astype(np.float32) @ membership.T
        return hidden == 0

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        values = self._encode(self._read(X))
        return self._predict_from(values, torch.as_tensor(self._known(X), device=values.device))


class OracleClassifier(ClassificationTarget, BaseOracle):
    """The known relevant columns of each row, and a classifier that sees those alone.

    Whether the selection leaks is up to whoever knows it.

    Parameters
    ----------
    relevant : callable, sequence of columns or None, default=None
        A function of X that returns booleans of shape (n, d), or the columns that are relevant for
        every row. None: all of them.
    groups, costs, hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, \
validation_fraction, device, random_state, verbose
        As in `AllFeaturesClassifier`. A unit with a relevant column is selected whole.

    Examples
    --------
    >>> from functools import partial
    >>> from suwr.baselines import OracleClassifier
    >>> from suwr_experiments.synthetic import relevant_columns, synthetic
    >>> data = synthetic(4, n_rows=200)
    >>> clf = OracleClassifier(relevant=partial(relevant_columns, 4), max_epochs=2, random_state=0)
    >>> bool((clf.fit(data.X, data.y).select(data.X) == data.relevant).all())
    True
    """


class OracleRegressor(RegressionTarget, BaseOracle):
    """The known relevant columns of each row; see `OracleClassifier`.

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
