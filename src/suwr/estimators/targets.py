"""Targets: classification with cross-entropy, and regression with its losses and transformations.

The classes of targets precede a `TableModel` in the list of bases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr._utils.text import plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.frame import column_names
from suwr.estimators.table import TableModel
from suwr.nn.losses import (
    AbsoluteError,
    CrossEntropy,
    GammaDeviance,
    PinballLoss,
    PoissonDeviance,
    SquaredError,
    ValueLoss,
)

__all__ = [
    "IDENTITY", "MAX_TRANSFORMED", "REGRESSION_LOSSES", "TARGET_TRANSFORMS", "ClassProbabilities",
    "ClassificationTarget", "RegressionTarget", "TargetTransform", "normalize_probabilities",
]  # fmt: skip

FloatArray = NDArray[np.float64]
#: Transformed values are clipped to ±this before the inverse, so that predictions are finite.
MAX_TRANSFORMED = 700.0


@dataclass(frozen=True)
class TargetTransform:
    """An increasing function of the target, with its inverse.

    It has no fitted state: model files hold its name. `suwr.estimators.export` describes the
    inverse to pages and ONNX files, by the same name.

    Attributes
    ----------
    name : str or None
        The value of the ``target_transform`` parameter.
    function, inverse_function : callable
        Of arrays.
    above : float
        The function is defined for greater values only.
    """

    name: str | None
    function: Callable[[FloatArray], FloatArray]
    inverse_function: Callable[[FloatArray], FloatArray]
    above: float = -np.inf

    def check(self, values: FloatArray) -> None:
        """Raise an error that names the first value for which the function is not defined."""
        invalid = values <= self.above
        if invalid.any():
            expected = "positive" if self.above == 0 else f"greater than {self.above:g}"
            raise ValueError(
                f"y must be {expected} for target_transform={self.name!r}. "
                f"Got {plain_repr(values[invalid][0])} instead."
            )

    def forward(self, values: Any) -> FloatArray:
        """Return the transformed values; NaN or infinity where the function is not defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.function(np.asarray(values, dtype=np.float64))

    def inverse(self, transformed: FloatArray) -> FloatArray:
        """Return the values in the units of the target."""
        if self.name is None:
            return transformed
        return self.inverse_function(np.clip(transformed, -MAX_TRANSFORMED, MAX_TRANSFORMED))


def _identity(values: FloatArray) -> FloatArray:
    return values


IDENTITY = TargetTransform(None, _identity, _identity)
#: From the values of the ``target_transform`` parameter, except None, to the transformations.
TARGET_TRANSFORMS = {
    "log": TargetTransform("log", np.log, np.exp, above=0.0),
    "log1p": TargetTransform("log1p", np.log1p, np.expm1, above=-1.0),
    "asinh": TargetTransform("asinh", np.arcsinh, np.sinh),
}


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

    def _to_network_units(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inverse of `_in_user_units`, of predictions for which it is defined."""
        scaled = (self._transform().forward(values) - self.target_center_) / self.target_scale_
        if self._loss_of_unit(1.0).link == "log":
            scaled = np.maximum(scaled, MIN_POSITIVE)
        return scaled

    def _has_soft_targets(self) -> bool:
        return False

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


# Predictions of a teacher for a loss with a log link are raised to it, in units of the mean.
MIN_POSITIVE = 1e-3
# Largest accepted deviation of the sum of the probabilities of a row from 1.
SUM_TOLERANCE = 1e-3
# Entropy of the mean class probabilities, in nats, below which a target counts as constant.
MIN_ENTROPY = 1e-9


@dataclass(frozen=True)
class ClassProbabilities:
    """Soft targets of a classifier.

    Attributes
    ----------
    values : ndarray of shape (n, n_classes)
        Rows sum to 1.
    classes : ndarray of shape (n_classes,)
        Label of each column.
    """

    values: NDArray[np.float64]
    classes: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def read(cls, y: Any, classes: ArrayLike | None, owner: str) -> ClassProbabilities:
        """Validate probabilities and class labels.

        Parameters
        ----------
        y : array-like or data frame of shape (n, n_classes)
        classes : array-like of shape (n_classes,) or None
            None takes the column names of a data frame, or 0, 1, …
        owner : str
            Class of the estimator, for errors.
        """
        expected = "class probabilities of shape (n, n_classes) with at least two classes"
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be class labels, or {expected}.") from None
        if values.ndim != 2 or values.shape[1] < 2:
            raise ValueError(f"y must be {expected}. Got shape {values.shape} instead.")
        assert_all_finite(values, input_name="y")
        off = (values < 0).any(axis=1) | (abs(values.sum(axis=1) - 1.0) > SUM_TOLERANCE)
        if off.any():
            row = int(off.argmax())
            raise ValueError(
                "Each row of y must hold non-negative class probabilities that sum to 1. Got "
                f"{values[row].tolist()} in row {row} instead."
            )
        n = values.shape[1]
        names = column_names(y) if classes is None else classes
        labels = np.arange(n) if names is None else np.asarray(names)
        if labels.shape != (n,) or len(set(labels.tolist())) != n:
            message = f"{n} different labels, one for each column of y"
            raise parameter_error("classes", owner, message, classes)
        return cls(values / values.sum(axis=1, keepdims=True), labels)


class ClassificationTarget(ClassifierMixin, TableModel):
    """Classification: class probabilities, trained and evaluated by cross-entropy.

    Targets are class labels, or probabilities of the classes (soft targets).
    """

    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    class_prior_: NDArray[np.float64] | None

    def _prepare_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        if not isinstance(y, ClassProbabilities) and _is_wide(y):
            y = ClassProbabilities.read(y, None, type(self).__name__)
        if isinstance(y, ClassProbabilities):
            return self._prepare_probabilities(y, weight)
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "O" and any(v is None or v != v for v in y):
            raise ValueError("Input y contains NaN. Every row must have a class label.")
        assert_all_finite(y, input_name="y")
        # scikit-learn casts floats to integers here, which overflows for very large values.
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                "y must have at least two classes. "
                f"Got one class: {plain_repr(classes[0])} instead."
            )
        self.classes_ = classes
        # Rows of weight zero may have labels outside `classes`; they are not used in training.
        numbers = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        total = np.bincount(numbers, weights=weight, minlength=len(classes)).astype(np.float64)
        weight = weight * self._weights_of_classes(classes, total)[numbers]
        share = np.bincount(numbers, weights=weight, minlength=len(classes)) / weight.sum()
        self.class_prior_ = share
        self.constant_loss_ = float(-(share * np.log(share)).sum())
        return numbers.astype(np.int64), weight

    _soft_targets_ = False

    def _has_soft_targets(self) -> bool:
        return self._soft_targets_

    def _prepare_probabilities(
        self, y: ClassProbabilities, weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        values, self._soft_targets_ = y.values, True
        if self.class_weight is not None:
            # Weighting each class in the cross-entropy is the same as weighting the row by the sum
            # of its weighted probabilities, and dividing them by it.
            values = values * self._weights_of_classes(y.classes, weight @ values)
            of_row = values.sum(axis=1)
            values, weight = values / of_row[:, None], weight * of_row
        share = np.average(values, axis=0, weights=weight)
        self.classes_, self.class_prior_ = y.classes, share
        self.constant_loss_ = float(-xlogy(share, share).sum())
        if self.constant_loss_ < MIN_ENTROPY:
            raise ValueError(
                "y must have at least two classes with positive probability. Got only class "
                f"{plain_repr(y.classes[share.argmax()])} instead."
            )
        return values.astype(np.float32), weight

    def _weights_of_classes(
        self, classes: NDArray[Any], total: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the weight of each class by the parameter ``class_weight``.

        ``total`` is the sum of the sample weights of each class.
        """
        given = self.class_weight
        if given is None:
            return np.ones(len(classes))
        if isinstance(given, str):
            # A class without weight has no rows that could be weighted.
            return total.sum() / (len(classes) * np.where(total > 0, total, np.inf))
        labels = classes.tolist()
        unknown = [label for label in given if label not in labels]
        if unknown:
            expected = f"a dict whose keys are classes of y ({', '.join(map(repr, labels[:8]))})"
            raise parameter_error("class_weight", type(self).__name__, expected, unknown[0])
        return np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)

    def _make_loss(self) -> CrossEntropy:
        return CrossEntropy(len(self.classes_), unit=self.constant_loss_)

    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        # Rows with soft targets are stratified by their most probable class.
        y = y.argmax(axis=1) if y.ndim == 2 else y
        counts = np.bincount(y, minlength=len(self.classes_))
        stratify = y if counts.min() >= 2 and n_validation >= len(self.classes_) else None
        parts = train_test_split(
            np.arange(len(y)), test_size=n_validation, stratify=stratify, random_state=rng
        )
        return parts[0], parts[1]

    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        return prediction.astype(np.float64)

    def _constant_prediction(self) -> NDArray[np.float64] | None:
        return self.class_prior_

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _class_labels(self) -> tuple[Any, ...]:
        return tuple(self.classes_.tolist())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return normalize_probabilities(self._predict_final(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        probability = self._predict_final(X)
        return self.classes_[probability.argmax(axis=1)]


def _is_wide(y: Any) -> bool:
    """Whether a target has several columns."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def normalize_probabilities(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rescale float32 probabilities so that they sum to one in float64."""
    return probability / probability.sum(axis=1, keepdims=True)
