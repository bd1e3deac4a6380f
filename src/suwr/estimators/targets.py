"""Target mix-ins: classification with cross-entropy, and regression.

Each precedes a `TableModel` in the list of bases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr._utils.text import plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.frame import column_names
from suwr.estimators.regression_target import RegressionTarget
from suwr.estimators.table_model import TableModel
from suwr.nn.losses import CrossEntropy

__all__ = [
    "ClassProbabilities",
    "ClassificationTarget",
    "RegressionTarget",
    "normalize_probabilities",
]

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

    def _prepare_probabilities(
        self, y: ClassProbabilities, weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        values = y.values
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
