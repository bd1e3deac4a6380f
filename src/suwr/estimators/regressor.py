"""`SUWRRegressor`: a value from the few features that each row needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr.estimators.base import BaseSUWR
from suwr.nn.losses import SquaredError

__all__ = ["SUWRRegressor"]


class SUWRRegressor(RegressorMixin, BaseSUWR):
    """Leak-free, instance-wise feature selection for regression with squared error.

    As `SUWRClassifier`, of which it takes all parameters; ``sparsity_weight`` (λ) is in units of
    the user's own squared error, and 'auto' is 1 % of the variance of ``y``.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had column names.
    units_ : Units
        What a step can reveal, with costs.
    max_steps_ : int
    sparsity_weight_ : float
        The λ that was used.
    constant_loss_ : float
        Squared error of the best constant prediction: the variance of ``y``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr import SUWRRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> reg = SUWRRegressor(max_epochs=10, random_state=0).fit(X, y)
    >>> reg.predict(X).shape
    (442,)
    """

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.float32]:
        y = column_or_1d(y, warn=True)
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("y must hold numbers for SUWRRegressor.") from None
        assert_all_finite(values, input_name="y")
        self.target_mean_ = float(np.average(values, weights=weight))
        variance = float(np.average((values - self.target_mean_) ** 2, weights=weight))
        # A constant target needs no features; any positive scale will do.
        self.constant_loss_ = variance if variance > 0 else 1.0
        self.target_scale_ = float(np.sqrt(self.constant_loss_))
        return ((values - self.target_mean_) / self.target_scale_).astype(np.float32)

    def _make_loss(self) -> SquaredError:
        # Targets are standardised, so the best constant prediction already costs one.
        return SquaredError()

    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        order = rng.permutation(len(y))
        return order[n_validation:], order[:n_validation]

    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        return prediction.astype(np.float64) * self.target_scale_ + self.target_mean_

    def _n_outputs(self) -> int:
        return 1

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The value of each row, from the selected features alone.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        return self._predict_final(X)[:, 0]
