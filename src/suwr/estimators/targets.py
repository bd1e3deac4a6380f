"""Target mix-ins: classification with cross-entropy, regression with squared error.

Each precedes a `TableModel` in the list of bases.
"""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr._utils.text import plain_repr
from suwr.estimators.table_model import TableModel
from suwr.nn.losses import CrossEntropy, SquaredError

__all__ = ["ClassificationTarget", "RegressionTarget", "normalize_probabilities"]


class _Target(TableModel):
    """A target mix-in; the classes with one are those that users create."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give every class an ``__init__`` of its own name, which errors about arguments quote."""
        super().__init_subclass__(**kwargs)
        inherited: Any = cls.__init__
        if "__init__" not in vars(cls) and isinstance(inherited, FunctionType):
            own = FunctionType(
                inherited.__code__, inherited.__globals__, closure=inherited.__closure__
            )
            update_wrapper(own, inherited)
            own.__kwdefaults__ = inherited.__kwdefaults__
            own.__qualname__ = f"{cls.__name__}.__init__"
            cls.__init__ = own  # type: ignore[method-assign]


class ClassificationTarget(ClassifierMixin, _Target):
    """Classification: class probabilities, trained and evaluated by cross-entropy."""

    class_prior_: NDArray[np.float64] | None

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.int64]:
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
        share = np.bincount(numbers, weights=weight, minlength=len(classes)) / weight.sum()
        self.class_prior_ = share
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


def normalize_probabilities(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rescale float32 probabilities so that they sum to one in float64."""
    return probability / probability.sum(axis=1, keepdims=True)


class RegressionTarget(RegressorMixin, _Target):
    """Regression with squared error; targets are standardized for training."""

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.float32]:
        y = column_or_1d(y, warn=True)
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be numeric for {type(self).__name__}.") from None
        assert_all_finite(values, input_name="y")
        with np.errstate(over="ignore", invalid="ignore"):
            self.target_mean_ = float(np.average(values, weights=weight))
            variance = float(np.average((values - self.target_mean_) ** 2, weights=weight))
        if not np.isfinite(variance):
            raise ValueError(
                "y must be numeric with finite variance. "
                f"Got absolute values up to {np.abs(values).max():g} instead."
            )
        # Any positive scale serves for a constant target.
        self.constant_loss_ = variance if variance > 0 else 1.0
        self.target_scale_ = float(np.sqrt(self.constant_loss_))
        return ((values - self.target_mean_) / self.target_scale_).astype(np.float32)

    def _make_loss(self) -> SquaredError:
        # Targets are standardized, so the best constant prediction has a loss of one.
        return SquaredError()

    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        order = rng.permutation(len(y))
        return order[n_validation:], order[:n_validation]

    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        return prediction.astype(np.float64) * self.target_scale_ + self.target_mean_

    def _constant_prediction(self) -> NDArray[np.float64]:
        return np.array([self.target_mean_])

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
