"""Regression targets: their losses, and their location and scale in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr._utils.text import plain_repr
from suwr.estimators.table_model import TableModel
from suwr.estimators.target_transform import IDENTITY, TARGET_TRANSFORMS, TargetTransform
from suwr.nn.losses import (
    AbsoluteError,
    GammaDeviance,
    PinballLoss,
    PoissonDeviance,
    SquaredError,
    ValueLoss,
)

__all__ = ["REGRESSION_LOSSES", "RegressionTarget"]

REGRESSION_LOSSES: dict[str, Callable[..., ValueLoss]] = {
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "quantile": PinballLoss,
    "poisson": PoissonDeviance,
    "gamma": GammaDeviance,
}


class RegressionTarget(RegressorMixin, TableModel):
    """Regression; targets are centred and scaled for training, or only scaled for a log link.

    With a ``target_transform``, this holds for the transformed targets. Losses are those of the
    transformed targets too, and predictions are transformed back by `_in_user_units`.

    Attributes
    ----------
    target_center_, target_scale_ : float
        Location and scale of ``y``, after ``target_transform``. The best constant prediction is
        ``target_center_``, or with a log link ``target_scale_``.
    """

    loss: Literal["squared_error", "absolute_error", "quantile", "poisson", "gamma"] = (
        "squared_error"
    )
    quantile: float | None = None
    target_transform: Literal["log", "log1p", "asinh"] | None = None
    target_center_: float
    target_scale_: float

    def _prepare_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        y = column_or_1d(y, warn=True)
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be numeric for {type(self).__name__}.") from None
        assert_all_finite(values, input_name="y")
        self._check_domain(values)
        values = self._transform().forward(values)
        if self.loss == "squared_error":
            self._standardize(values, weight)
        else:
            self._scale(values, weight)
        scaled = (values - self.target_center_) / self.target_scale_
        return scaled.astype(np.float32), weight

    def _check_domain(self, values: NDArray[np.float64]) -> None:
        """Raise an error for values that have no deviance, or cannot be transformed."""
        self._transform().check(values)
        if self.loss not in ("poisson", "gamma"):
            return
        invalid = values < 0 if self.loss == "poisson" else values <= 0
        if invalid.any():
            expected = "of at least 0" if self.loss == "poisson" else "positive"
            found = plain_repr(values[invalid][0])
            raise ValueError(f"y must be {expected} for loss={self.loss!r}. Got {found} instead.")

    def _transform(self) -> TargetTransform:
        """Return the transformation of the target, before it is centred and scaled."""
        name = self.target_transform
        return IDENTITY if name is None else TARGET_TRANSFORMS[name]

    def _standardize(self, values: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.target_center_ = float(np.average(values, weights=weight))
            variance = float(np.average((values - self.target_center_) ** 2, weights=weight))
        self._check_spread(variance, values, "variance")
        # Any positive scale serves for a constant target.
        self.constant_loss_ = variance if variance > 0 else 1.0
        self.target_scale_ = float(np.sqrt(self.constant_loss_))

    def _scale(self, values: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        loss = self._loss_of_unit(1.0)
        # torch warns of arrays that are not writable.
        columns, weights = torch.tensor(values).unsqueeze(-1), torch.tensor(weight)
        constant = loss.best_constant(columns, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.average(np.abs(values - float(constant)), weights=weight))
        self._check_spread(spread, values, "spread")
        self.target_center_, self.target_scale_ = float(constant), spread if spread > 0 else 1.0
        if loss.link == "log":
            if not constant > 0:
                raise ValueError(f"y must not be zero in all rows for loss={self.loss!r}.")
            self.target_center_, self.target_scale_ = 0.0, float(constant)
        losses = loss.of_prediction(constant.expand(len(columns), 1), columns)
        least = float((losses * weights).sum() / weights.sum())
        self._check_spread(least, values, "deviance")
        self.constant_loss_ = least if least > 0 else 1.0

    @staticmethod
    def _check_spread(spread: float, values: NDArray[np.float64], what: str) -> None:
        if not np.isfinite(spread):
            raise ValueError(
                f"y must be numeric with finite {what}. "
                f"Got absolute values up to {np.abs(values).max():g} instead."
            )

    def _loss_of_unit(self, unit: float) -> ValueLoss:
        if self.loss == "quantile":
            return PinballLoss(float(self.quantile or 0.5), unit)
        return REGRESSION_LOSSES[self.loss](unit=unit)

    def _make_loss(self) -> ValueLoss:
        if self.loss == "squared_error":
            # Targets are standardized, so the best constant prediction has a loss of one.
            return SquaredError()
        degree = self._loss_of_unit(1.0).degree
        return self._loss_of_unit(self.constant_loss_ / self.target_scale_**degree)

    def _row_losses(
        self, y: NDArray[np.float64], prediction: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the loss of every row, from values in the units of ``y``."""
        y, prediction = self._transform().forward(y), self._transform().forward(prediction)
        if self.loss == "squared_error":
            return (prediction - y) ** 2
        given = (torch.tensor(np.asarray(v, dtype=np.float64)) for v in (prediction, y))
        losses = self._loss_of_unit(1.0).of_prediction(*(v.unsqueeze(-1) for v in given))
        return losses.numpy()

    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        order = rng.permutation(len(y))
        return order[n_validation:], order[:n_validation]

    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        values = prediction.astype(np.float64) * self.target_scale_ + self.target_center_
        return self._transform().inverse(values)

    def _constant_prediction(self) -> NDArray[np.float64]:
        log_link = self._loss_of_unit(1.0).link == "log"
        value = np.array([self.target_scale_ if log_link else self.target_center_])
        return self._transform().inverse(value)

    def _n_outputs(self) -> int:
        return 1

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the target of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._predict_final(X)[:, 0]
