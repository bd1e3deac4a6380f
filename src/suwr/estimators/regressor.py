"""`SUWRRegressor`: instance-wise feature selection for regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import r2_score

from suwr.estimators.base import BaseSUWR
from suwr.estimators.targets import RegressionTarget

__all__ = ["SUWRRegressor"]


class SUWRRegressor(RegressionTarget, BaseSUWR):
    """Leakage-free, instance-wise feature selection for regression with squared error.

    All parameters are those of `SUWRClassifier`; ``sparsity_weight`` (λ) is in units of the squared
    error of ``y``, and 'auto' is 1 % of the variance of ``y``.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Column names of ``X``, if it had any.
    units_ : Units
        The units that a step can reveal, with their costs.
    max_steps_ : int
        The *T* that was used.
    report_ : Evaluation
        Evaluation on the held-out rows, which chose the best epoch; see `evaluate`.
    feature_importances_ : ndarray of shape (d,)
        Share of each column in the changes of the predictions of the held-out rows, step by step;
        the columns of a group share its changes. Columns that no row reveals have 0.
    sparsity_weight_ : float
        The λ that was used; the geometric mean of a range.
    weight_range_ : WeightRange or None
        The range of λ, if the model was fitted for one, with the mean number of units that each λ
        reveals.
    constant_loss_ : float
        Squared error of the best constant prediction: the variance of ``y``.
    history_ : list of dict
        One record per epoch; see `SUWRClassifier`.

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
        known: Any = None,
        available: Any = None,
        max_cost: Any = None,
        exactly: Any = None,
    ) -> NDArray[np.float64]:
        """Predict the target of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features : float, optional
            As in `select`.
        known, available, max_cost, exactly
            As in `select`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._predict_final(
            X,
            sparsity_weight,
            mean_features,
            known=known,
            available=available,
            max_cost=max_cost,
            exactly=exactly,
        )[:, 0]

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> float:
        """Return the coefficient of determination R² of `predict`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        sparsity_weight, mean_features : float, optional
            As in `select`.

        Returns
        -------
        float
        """
        predicted = self.predict(X, sparsity_weight=sparsity_weight, mean_features=mean_features)
        return float(r2_score(y, predicted, sample_weight=sample_weight))
