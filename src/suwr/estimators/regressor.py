"""`SUWRRegressor`: a value from the few features that each row needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.estimators.base import BaseSUWR
from suwr.estimators.targets import RegressionTarget

__all__ = ["SUWRRegressor"]


class SUWRRegressor(RegressionTarget, BaseSUWR):
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
        The λ that was used; the middle of a range.
    weight_range_ : WeightRange or None
        The range, with the number of units that each place of it takes.
    constant_loss_ : float
        Squared error of the best constant prediction: the variance of ``y``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr import SUWRRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> reg = SUWRRegressor(max_epochs=2, random_state=0).fit(X, y)
    >>> reg.predict(X).shape
    (442,)
    """

    def predict(
        self,
        X: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """The value of each row, from the selected features alone.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features
            As in `select`.
        """
        return self._predict_final(X, sparsity_weight, mean_features)[:, 0]
