"""`SUWRRegressor`: instance-wise feature selection for regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import r2_score

from suwr._utils.validation import Interval, Options, parameter, parameter_error
from suwr.estimators.base import SUWRModel
from suwr.estimators.limits import RowLimits
from suwr.estimators.table import TableRegressor, consistent
from suwr.estimators.targets import REGRESSION_LOSSES, TARGET_TRANSFORMS, ValueTarget


@dataclass(kw_only=True, eq=False, repr=False)
class SUWRRegressor(TableRegressor, SUWRModel):
    """Leakage-free, instance-wise feature selection for regression.

    All other parameters are those of `SUWRClassifier`, which has no ``loss``; ``sparsity_weight``
    (λ) is in units of the loss, and 'auto' is 1 % of the loss of the best constant prediction: with
    squared error, of the variance of ``y``.

    Parameters
    ----------
    loss : {'squared_error', 'absolute_error', 'quantile', 'poisson', 'gamma'}, \
default='squared_error'
        What the predictor and the policy minimise. 'squared_error' predicts the mean,
        'absolute_error' the median and 'quantile' (pinball loss) a quantile. 'poisson' and 'gamma'
        are the deviances of `sklearn.metrics`, for targets of at least zero and for positive
        targets: they predict the mean through a log link, so that predictions are positive, and
        suit targets whose variance grows with their mean.
    quantile : float or None, default=None
        The quantile to predict, in (0, 1), of ``loss='quantile'``.
    target_transform : {'log', 'log1p', 'asinh'} or None, default=None
        Function of ``y`` that is predicted instead, for targets with heavy tails: `numpy.log` of
        positive values, `numpy.log1p` of values greater than -1, such as amounts that may be zero,
        or `numpy.arcsinh` of amounts of either sign. ``loss`` and λ refer to the transformed
        target. Predictions, narratives, pages and intervals are in the units of ``y``: the inverse
        of what is predicted for the transformed target. Medians and quantiles stay medians and
        quantiles. The inverse of a mean is not the mean: with 'squared_error' and 'log', the
        geometric mean is predicted, which is close to the median and lower than the mean of ``y``;
        no correction is applied. For means, use ``loss='gamma'`` or ``loss='poisson'``, which
        cannot be combined with a transformation.

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
    dates_ : DateParts or None
        Makes the columns of the model from those of a file that ``suwr fit --dates`` has read.
    sparsity_weight_ : float
        The λ that was used; the geometric mean of a range.
    weight_range_ : WeightRange or None
        The range of λ, if the model was fitted for one, with the mean number of units that each λ
        reveals.
    constant_loss_ : float
        Loss of the best constant prediction; with squared error, the variance of ``y``, after
        ``target_transform``.
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

    loss: Literal["squared_error", "absolute_error", "quantile", "poisson", "gamma"] = parameter(
        "squared_error", Options(*REGRESSION_LOSSES)
    )
    quantile: float | None = parameter(None, None, Interval(Real, 0, 1, closed="neither"))
    target_transform: Literal["log", "log1p", "asinh"] | None = parameter(
        None, None, Options(*TARGET_TRANSFORMS)
    )

    def _check_parameters(self) -> None:
        """See `TableModel`."""
        super()._check_parameters()
        if self.loss == "quantile" and self.quantile is None:
            expected = "a float in the range (0, 1) if loss='quantile'"
            raise parameter_error("quantile", type(self).__name__, expected, None)
        if self.target_transform is not None:
            reason = "" if self.predictor is None else "'predictor' is given"
            if self.loss in ("poisson", "gamma"):
                reason = f"loss={self.loss!r}, which has a log link"
            if reason:
                owner, given = type(self).__name__, self.target_transform
                raise parameter_error("target_transform", owner, f"None if {reason}", given)

    def _unfitted_target(self) -> ValueTarget:
        return ValueTarget(self.loss, self.quantile, self.target_transform)

    def _fit_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[ValueTarget, NDArray[Any], NDArray[np.float64]]:
        return *self._unfitted_target().fit(y, weight, type(self).__name__), weight

    def _restore_target(self, state: Mapping[str, Any]) -> None:
        self.target_ = self._unfitted_target().restored(state)

    @consistent
    def predict(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Predict the target of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        ndarray of shape (n,)
        """
        final = self._predict_final(X, **limits)
        return self.target_.answers(final)

    @consistent
    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **limits: Unpack[RowLimits],
    ) -> float:
        """Return the coefficient of determination R² of `predict`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        float
        """
        predicted = self.predict(X, **limits)
        return float(r2_score(y, predicted, sample_weight=sample_weight))
