"""Targets: what a model predicts, in the units of the user, and the losses of its training.

A fitted estimator has a `ClassTarget` or a `ValueTarget`. In the following, ``shown`` are
predictions in the units of the user, (n, n_outputs): class probabilities, or values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

from suwr._utils.text import plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.frame import column_names
from suwr.exceptions import ModelFileError
from suwr.nn.losses import (
    AbsoluteError,
    CrossEntropy,
    GammaDeviance,
    Loss,
    PinballLoss,
    PoissonDeviance,
    SquaredError,
    ValueLoss,
)
from suwr.training.teacher import MIN_POSITIVE

FloatArray = NDArray[np.float64]
Indices = tuple[NDArray[np.intp], NDArray[np.intp]]
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


class Target(ABC):
    """What a fitted model predicts.

    Attributes
    ----------
    constant_loss : float
        Loss of the best constant prediction, the unit of the losses of training.
    labels : tuple or None
        The class labels as Python scalars; None if values are predicted.
    n_outputs : int
        Number of outputs of the predictor.
    """

    constant_loss: float

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """See the attribute."""
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the estimator that predictions depend on, as they were in ``fit``."""
        return {}

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """See the attribute."""

    @property
    @abstractmethod
    def constant(self) -> FloatArray | None:
        """The best constant prediction, ``(n_outputs,)``; None if it is not known."""

    @abstractmethod
    def make_loss(self) -> Loss:
        """Return the loss of training."""

    @abstractmethod
    def split(self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState) -> Indices:
        """Return the indices of the training rows and of the validation rows."""

    @abstractmethod
    def shown(self, prediction: NDArray[np.float32]) -> FloatArray:
        """Convert predictions of the network to the units of the user."""

    @abstractmethod
    def taught(self, predicted: Any, labels: Any) -> FloatArray:
        """Convert predictions of a teacher, with its ``classes_``, to targets of training."""

    @abstractmethod
    def answers(self, shown: FloatArray) -> NDArray[Any]:
        """Return what ``predict`` returns: labels or values, ``(n,)``."""

    @abstractmethod
    def outputs(self, shown: FloatArray) -> FloatArray:
        """Return class probabilities as they are, and values without their last axis."""

    def normalized(self, shown: FloatArray) -> FloatArray:
        """Rescale single-precision probabilities so that they sum to one; not values."""
        return shown

    @abstractmethod
    def numbers(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return encoded targets as the numbers of their classes or as values."""

    @abstractmethod
    def read(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return targets of rows other than those of ``fit``, as `numbers` does."""

    @abstractmethod
    def row_losses(self, y: NDArray[Any], shown: FloatArray) -> FloatArray:
        """Return the loss of every row, given the output of `read`."""

    @abstractmethod
    def differ(self, one: FloatArray, other: FloatArray, tolerance: float) -> NDArray[np.bool_]:
        """Whether two predictions are other classes, or values that differ by more than that."""

    @abstractmethod
    def wrong(self, shown: FloatArray, y: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
        """Whether a prediction differs from the truth."""

    @abstractmethod
    def distance(self, one: Sequence[float], other: Sequence[float]) -> float:
        """Largest difference of probabilities; of values, relative to the scale of the target."""

    @abstractmethod
    def facts(self) -> list[Any]:
        """Return what determines predictions from network outputs, for digests."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a model file."""


@dataclass(frozen=True)
class ValueTarget(Target):
    """Values, which are centred and scaled for training, or only scaled for a log link.

    With a ``transform``, this holds for the transformed values, and so do losses.

    Attributes
    ----------
    loss : str
        One of `REGRESSION_LOSSES`.
    quantile : float or None
    transform : str or None
        One of `TARGET_TRANSFORMS`.
    center, scale : float
        Location and scale after the transformation. The best constant prediction is ``center``, or
        with a log link ``scale``.
    """

    loss: str = "squared_error"
    quantile: float | None = None
    transform: str | None = None
    center: float = 0.0
    scale: float = 1.0
    constant_loss: float = 1.0

    def fit(self, y: Any, weight: FloatArray, owner: str) -> tuple[Self, NDArray[np.float32]]:
        """Measure location, scale and loss of values; also return the scaled values."""
        y = column_or_1d(y, warn=True)
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be numeric for {owner}.") from None
        assert_all_finite(values, input_name="y")
        self.check(values)
        values = self.transformation.forward(values)
        center, scale, least = (
            _moments(values, weight)
            if self.loss == "squared_error"
            else self._least_loss(values, weight)
        )
        found = replace(self, center=center, scale=scale, constant_loss=least)
        return found, ((values - center) / scale).astype(np.float32)

    def _least_loss(self, values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
        loss = self._loss_of_unit(1.0)
        # torch warns of arrays that are not writable.
        columns, weights = torch.tensor(values).unsqueeze(-1), torch.tensor(weight)
        constant = loss.best_constant(columns, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.average(np.abs(values - float(constant)), weights=weight))
        _check_spread(spread, values, "spread")
        center, scale = float(constant), spread if spread > 0 else 1.0
        if loss.link == "log":
            if not constant > 0:
                raise ValueError(f"y must not be zero in all rows for loss={self.loss!r}.")
            center, scale = 0.0, float(constant)
        losses = loss.of_prediction(constant.expand(len(columns), 1), columns)
        least = float((losses * weights).sum() / weights.sum())
        _check_spread(least, values, "deviance")
        return center, scale, least if least > 0 else 1.0

    def check(self, values: FloatArray) -> None:
        """Raise an error for values that have no deviance, or cannot be transformed."""
        self.transformation.check(values)
        if self.loss not in ("poisson", "gamma"):
            return
        invalid = values < 0 if self.loss == "poisson" else values <= 0
        if invalid.any():
            expected = "of at least 0" if self.loss == "poisson" else "positive"
            found = plain_repr(values[invalid][0])
            raise ValueError(f"y must be {expected} for loss={self.loss!r}. Got {found} instead.")

    @property
    def transformation(self) -> TargetTransform:
        """The transformation of the values, before they are centred and scaled."""
        return IDENTITY if self.transform is None else TARGET_TRANSFORMS[self.transform]

    @property
    def parameters(self) -> dict[str, Any]:
        """See `Target`."""
        given = self.transform
        return {"loss": self.loss, "quantile": self.quantile, "target_transform": given}

    @property
    def log_link(self) -> bool:
        """Whether outputs of the network are logarithms of scaled values."""
        return self._loss_of_unit(1.0).link == "log"

    @property
    def n_outputs(self) -> int:
        """See `Target`."""
        return 1

    @property
    def constant(self) -> FloatArray:
        """See `Target`."""
        return self.transformation.inverse(np.array([self.scale if self.log_link else self.center]))

    def _loss_of_unit(self, unit: float) -> ValueLoss:
        if self.loss == "quantile":
            return PinballLoss(float(self.quantile or 0.5), unit)
        return REGRESSION_LOSSES[self.loss](unit=unit)

    def make_loss(self) -> ValueLoss:
        """See `Target`."""
        if self.loss == "squared_error":
            # Targets are standardized, so the best constant prediction has a loss of one.
            return SquaredError()
        degree = self._loss_of_unit(1.0).degree
        return self._loss_of_unit(self.constant_loss / self.scale**degree)

    def split(self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState) -> Indices:
        """See `Target`."""
        order = rng.permutation(len(y))
        return order[n_validation:], order[:n_validation]

    def shown(self, prediction: NDArray[np.float32]) -> FloatArray:
        """See `Target`."""
        values = prediction.astype(np.float64) * self.scale + self.center
        return self.transformation.inverse(values)

    def taught(self, predicted: Any, labels: Any) -> FloatArray:
        """See `Target`."""
        values = self.transformation.forward(np.asarray(predicted, dtype=np.float64).reshape(-1, 1))
        scaled = (values - self.center) / self.scale
        return np.maximum(scaled, MIN_POSITIVE) if self.log_link else scaled

    def answers(self, shown: FloatArray) -> FloatArray:
        """See `Target`."""
        return shown[..., 0]

    outputs = answers

    def numbers(self, y: NDArray[Any]) -> FloatArray:
        """See `Target`."""
        return self.shown(y)[:, 0]

    def read(self, y: Any, n_rows: int) -> FloatArray:
        """See `Target`."""
        values = np.asarray(_column(y, n_rows), dtype=np.float64)
        assert_all_finite(values, input_name="y")
        self.check(values)
        return values

    def row_losses(self, y: NDArray[Any], shown: FloatArray) -> FloatArray:
        """See `Target`."""
        truth, found = map(self.transformation.forward, (y, shown[:, 0]))
        if self.loss == "squared_error":
            return (found - truth) ** 2
        given = (torch.tensor(np.asarray(v, dtype=np.float64)) for v in (found, truth))
        losses = self._loss_of_unit(1.0).of_prediction(*(v.unsqueeze(-1) for v in given))
        return losses.numpy()

    def differ(self, one: FloatArray, other: FloatArray, tolerance: float) -> NDArray[np.bool_]:
        """See `Target`."""
        return np.asarray(np.abs(one - other)[:, 0] > tolerance)

    def wrong(self, shown: FloatArray, y: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
        """See `Target`."""
        return np.asarray(np.abs(shown[:, 0] - y) > tolerance)

    def distance(self, one: Sequence[float], other: Sequence[float]) -> float:
        """See `Target`."""
        found, expected = self.transformation.forward([one[0], other[0]]).tolist()
        unit = max(abs(self.scale), abs(expected - self.center), math.ulp(0.0))
        # A receipt may state a value that cannot be transformed.
        return abs(found - expected) / unit if math.isfinite(found) else math.inf

    def facts(self) -> list[Any]:
        """See `Target`."""
        found: list[Any] = [None, self.center, self.scale]
        if self.loss != "squared_error":
            found += [self.loss, self.quantile]
        return found if self.transform is None else [*found, self.transform]

    def to_dict(self) -> dict[str, Any]:
        """See `Target`."""
        return {"constant_loss": self.constant_loss, "target": [self.center, self.scale]}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return the target of a model file, after checking its numbers."""
        center, scale = (float(value) for value in state["target"])
        if not math.isfinite(center):
            raise ModelFileError("The location of its target is not finite.")
        return replace(
            self,
            center=center,
            scale=_positive(scale),
            constant_loss=_positive(state["constant_loss"]),
        )


def _moments(values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        center = float(np.average(values, weights=weight))
        variance = float(np.average((values - center) ** 2, weights=weight))
    _check_spread(variance, values, "variance")
    # Any positive scale serves for a constant target.
    variance = variance if variance > 0 else 1.0
    return center, float(np.sqrt(variance)), variance


def _check_spread(spread: float, values: FloatArray, what: str) -> None:
    if not np.isfinite(spread):
        raise ValueError(
            f"y must be numeric with finite {what}. "
            f"Got absolute values up to {np.abs(values).max():g} instead."
        )


def _column(y: Any, n_rows: int) -> NDArray[Any]:
    given = column_or_1d(y, warn=True)
    check_consistent_length(given, np.empty(n_rows))
    return given


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ModelFileError("The scale of its target is not a positive number.")
    return number


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


# Log losses are computed from probabilities of at least this.
SMALLEST = 1e-12
_CLASS_DTYPES: dict[str, Any] = {
    "b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": str,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClassTarget(Target):
    """Classes, whose probabilities are trained and evaluated by cross-entropy.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    prior : ndarray of shape (n_classes,) or None
        Frequencies of the classes in the training rows, by weight.
    """

    classes: NDArray[Any]
    constant_loss: float
    prior: FloatArray | None = None

    @classmethod
    def fit(
        cls,
        y: Any,
        weight: FloatArray,
        owner: str,
        class_weight: str | Mapping[Any, float] | None = None,
    ) -> tuple[Self, NDArray[Any], FloatArray]:
        """Read labels or class probabilities; also return them as numbers, and weights of rows."""
        if not isinstance(y, ClassProbabilities) and _is_wide(y):
            y = ClassProbabilities.read(y, None, owner)
        if isinstance(y, ClassProbabilities):
            return cls._of_probabilities(y, weight, owner, class_weight)
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "O" and any(v is None or v != v for v in y):
            raise ValueError(
                "Input y contains NaN. Every row must have a class label: fit on the rows that "
                "have one, as X[y.notna()] and y[y.notna()], or give the others a class."
            )
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
        # Rows of weight zero may have labels outside `classes`; they are not used in training.
        numbers = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        total = np.bincount(numbers, weights=weight, minlength=len(classes)).astype(np.float64)
        weight = weight * _weights_of_classes(class_weight, classes, total, owner)[numbers]
        share = np.bincount(numbers, weights=weight, minlength=len(classes)) / weight.sum()
        loss = float(-(share * np.log(share)).sum())
        return cls(classes, loss, share), numbers.astype(np.int64), weight

    @classmethod
    def _of_probabilities(
        cls,
        y: ClassProbabilities,
        weight: FloatArray,
        owner: str,
        class_weight: str | Mapping[Any, float] | None,
    ) -> tuple[Self, NDArray[np.float32], FloatArray]:
        values = y.values
        if class_weight is not None:
            # Weighting each class in the cross-entropy is the same as weighting the row by the sum
            # of its weighted probabilities, and dividing them by it.
            total = weight @ values
            values = values * _weights_of_classes(class_weight, y.classes, total, owner)
            of_row = values.sum(axis=1)
            values, weight = values / of_row[:, None], weight * of_row
        share = np.average(values, axis=0, weights=weight)
        loss = float(-xlogy(share, share).sum())
        if loss < MIN_ENTROPY:
            raise ValueError(
                "y must have at least two classes with positive probability. Got only class "
                f"{plain_repr(y.classes[share.argmax()])} instead."
            )
        return cls(y.classes, loss, share), values.astype(np.float32), weight

    @property
    def labels(self) -> tuple[Any, ...]:
        """See `Target`."""
        return tuple(self.classes.tolist())

    @property
    def n_outputs(self) -> int:
        """See `Target`."""
        return len(self.classes)

    @property
    def constant(self) -> FloatArray | None:
        """See `Target`."""
        return self.prior

    def make_loss(self) -> CrossEntropy:
        """See `Target`."""
        return CrossEntropy(len(self.classes), unit=self.constant_loss)

    def split(self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState) -> Indices:
        """See `Target`."""
        # Rows with soft targets are stratified by their most probable class.
        y = y.argmax(axis=1) if y.ndim == 2 else y
        counts = np.bincount(y, minlength=len(self.classes))
        stratify = y if counts.min() >= 2 and n_validation >= len(self.classes) else None
        parts = train_test_split(
            np.arange(len(y)), test_size=n_validation, stratify=stratify, random_state=rng
        )
        return parts[0], parts[1]

    def shown(self, prediction: NDArray[np.float32]) -> FloatArray:
        """See `Target`."""
        return prediction.astype(np.float64)

    def taught(self, predicted: Any, labels: Any) -> FloatArray:
        """See `Target`."""
        full = np.zeros((len(predicted), self.n_outputs))
        full[:, np.searchsorted(self.classes, labels)] = predicted
        return full

    def answers(self, shown: FloatArray) -> NDArray[Any]:
        """See `Target`."""
        return self.classes[shown.argmax(axis=1)]

    def outputs(self, shown: FloatArray) -> FloatArray:
        """See `Target`."""
        return shown

    def normalized(self, shown: FloatArray) -> FloatArray:
        """See `Target`."""
        return shown / shown.sum(axis=-1, keepdims=True)

    def numbers(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """See `Target`."""
        return y.argmax(axis=1)

    def read(self, y: Any, n_rows: int) -> NDArray[np.intp]:
        """See `Target`."""
        given, number = _column(y, n_rows).tolist(), {v: i for i, v in enumerate(self.labels)}
        unknown = [label for label in given if label not in number]
        if unknown:
            known = ", ".join(map(repr, self.labels[:8]))
            found = plain_repr(unknown[0])
            raise ValueError(f"y must contain the classes of fit: {known}. Got {found} instead.")
        return np.array([number[label] for label in given], dtype=np.intp)

    def row_losses(self, y: NDArray[Any], shown: FloatArray) -> FloatArray:
        """See `Target`."""
        return -np.log(np.maximum(shown[np.arange(len(y)), y], SMALLEST))

    def differ(self, one: FloatArray, other: FloatArray, tolerance: float) -> NDArray[np.bool_]:
        """See `Target`."""
        return np.asarray(one.argmax(axis=1) != other.argmax(axis=1))

    def wrong(self, shown: FloatArray, y: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
        """See `Target`."""
        return np.asarray(shown.argmax(axis=1) != y)

    def distance(self, one: Sequence[float], other: Sequence[float]) -> float:
        """See `Target`."""
        return max(abs(x - y) for x, y in zip(one, other, strict=True))

    def facts(self) -> list[Any]:
        """See `Target`."""
        return [self.labels, None, None]

    def to_dict(self) -> dict[str, Any]:
        """See `Target`."""
        values = self.classes.tolist()
        for value in values:
            if not isinstance(value, bool | int | float | str):
                raise ValueError(
                    "Class labels must be numbers, strings or booleans to be saved. "
                    f"Got {value!r} instead."
                )
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise ValueError("Integer class labels must have at most 64 bits to be saved.")
        dtype = self.classes.dtype
        return {
            "constant_loss": self.constant_loss,
            "class_prior": None if self.prior is None else self.prior.tolist(),
            "classes": {"kind": dtype.kind, "dtype": dtype.name, "values": values},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the target of a model file, after checking every value."""
        classes = _decode_classes(state["classes"])
        prior = None
        # Files of suwr 0.2.0 lack it.
        if state.get("class_prior") is not None:
            prior = np.array(state["class_prior"], dtype=np.float64)
            valid = prior.shape == (len(classes),) and (prior > 0).all()
            if not valid or abs(prior.sum() - 1) > 1e-6:
                raise ValueError("The class frequencies must be positive and sum to one.")
        return cls(classes, _positive(state["constant_loss"]), prior)


def _decode_classes(stored: Mapping[str, Any]) -> NDArray[Any]:
    values, kind = stored["values"], stored["kind"]
    if not isinstance(values, list) or len(values) < 2:
        raise ModelFileError("It has fewer than two classes.")
    check_scalars(values, "Its classes")
    dtype = _CLASS_DTYPES.get(kind, object)
    if kind in ("i", "u", "f") and "dtype" in stored:
        dtype = np.dtype(stored["dtype"])
        if dtype.kind != kind:
            raise ModelFileError("The type of its classes is inconsistent.")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values:
        raise ModelFileError("The type of its classes is inconsistent.")
    return classes


def check_scalars(values: Any, what: str) -> None:
    """Refuse anything but different scalars of at most 64 bits in a model file."""
    if not all(isinstance(v, bool | int | float | str) for v in values):
        raise ModelFileError(f"{what} are not scalars.")
    # Large integers can be chosen to have equal hashes, which takes quadratic time.
    if any(isinstance(v, int) and not -(2**63) <= v < 2**64 for v in values):
        raise ModelFileError(f"{what} have more than 64 bits.")
    if len(set(values)) != len(values):
        raise ModelFileError(f"{what} are not unique.")


def _weights_of_classes(
    given: str | Mapping[Any, float] | None, classes: NDArray[Any], total: FloatArray, owner: str
) -> FloatArray:
    """Return the weight of each class by the parameter ``class_weight``.

    ``total`` is the sum of the sample weights of each class.
    """
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, str):
        # A class without weight has no rows that could be weighted.
        return total.sum() / (len(classes) * np.where(total > 0, total, np.inf))
    labels = classes.tolist()
    unknown = [label for label in given if label not in labels]
    if unknown:
        expected = f"a dict whose keys are classes of y ({', '.join(map(repr, labels[:8]))})"
        raise parameter_error("class_weight", owner, expected, unknown[0])
    return np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)


def _is_wide(y: Any) -> bool:
    """Whether a target has several columns."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1
