"""The two kinds of target: classes with cross-entropy, values with squared error.

Each is a mix-in that stands before a `TableModel` in the list of bases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr.estimators.table_model import TableModel
from suwr.nn.losses import CrossEntropy, SquaredError

__all__ = ["ClassificationTarget", "RegressionTarget", "normalised"]


class ClassificationTarget(ClassifierMixin, TableModel):
    """Class probabilities, judged by cross-entropy."""

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.int64]:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "O" and any(v is None or v != v for v in y):
            raise ValueError("Input y contains NaN: every row needs a class.")
        assert_all_finite(y, input_name="y")
        # scikit-learn asks whether numbers are whole by making them so; huge ones are not.
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                f"y must have at least two classes. Got one class: {classes[0]!r} instead."
            )
        self.classes_ = classes
        # Rows of weight zero may hold classes of their own; they are not trained on.
        numbers = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        share = np.bincount(numbers, weights=weight, minlength=len(classes)) / weight.sum()
        self.constant_loss_ = float(-(share * np.log(share)).sum())
        return numbers.astype(np.int64)

    def _make_loss(self) -> CrossEntropy:
        return CrossEntropy(len(self.classes_), unit=self.constant_loss_)

    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        counts = np.bincount(y, minlength=len(self.classes_))
        stratify = y if counts.min() >= 2 and n_validation >= len(self.classes_) else None
        parts = train_test_split(
            np.arange(len(y)), test_size=n_validation, stratify=stratify, random_state=rng
        )
        return parts[0], parts[1]

    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        return prediction.astype(np.float64)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _class_labels(self) -> tuple[Any, ...]:
        return tuple(self.classes_.tolist())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities from the selected features alone, (n, n_classes).

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        return normalised(self._predict_final(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, from the selected features alone.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        probability = self._predict_final(X)
        return self.classes_[probability.argmax(axis=1)]


def normalised(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities that sum to one in float64 as well."""
    return probability / probability.sum(axis=1, keepdims=True)


class RegressionTarget(RegressorMixin, TableModel):
    """Values, judged by squared error; standardised for training."""

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.float32]:
        y = column_or_1d(y, warn=True)
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers for {type(self).__name__}.") from None
        assert_all_finite(values, input_name="y")
        with np.errstate(over="ignore", invalid="ignore"):
            self.target_mean_ = float(np.average(values, weights=weight))
            variance = float(np.average((values - self.target_mean_) ** 2, weights=weight))
        if not np.isfinite(variance):
            raise ValueError(
                "y must hold numbers whose variance is finite. "
                f"Got values as large as {np.abs(values).max():g} instead."
            )
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
