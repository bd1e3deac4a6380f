"""`SUWRClassifier`: class probabilities from the few features that each row needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from suwr.estimators.base import BaseSUWR
from suwr.nn.losses import CrossEntropy

__all__ = ["SUWRClassifier"]


class SUWRClassifier(ClassifierMixin, BaseSUWR):
    """Leak-free, instance-wise feature selection for classification.

    For each row the model starts blind. At each step it stops, or reveals one more unit, decided
    from what is already revealed; nothing is ever taken back. So the selected features are all that
    the prediction was made of, and the selection itself tells nothing else.

    Parameters
    ----------
    sparsity_weight : float or 'auto', default='auto'
        λ, the price of one unit of feature cost, in nats of cross-entropy. 'auto' is 1 % of the
        cross-entropy of the best constant prediction.
    max_steps : int or None, default=None
        *T*, most steps of a row. None allows every unit, but no more than 32 steps.
    groups : None, Patches, mapping or list of lists, default=None
        Columns that are revealed together: ``{"panel": ["a", "b"]}``, or image `Patches`. Columns
        that no group names stand for themselves.
    costs : None, mapping or array-like, default=None
        Price of each unit in the penalty λ · cost; 1 unless named.
    units_per_step : int, default=1
        Units that one step reveals.
    hidden_size, n_layers : int, default=128, 3
        Width and number of hidden layers of the networks.
    max_epochs : int, default=100
        Epochs of policy training; pretraining and fine-tuning add half as many.
    batch_size : int or 'auto', default='auto'
    validation_fraction : float, default=0.1
        Share of the rows that chooses the best epoch.
    trainer : {'actor', 'reinforce'}, default='actor'
        'reinforce' is the objective of the paper's Section 4.2, for comparison.
    device : str, default='auto'
        'auto' takes CUDA where there is any.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had column names.
    units_ : Units
        What a step can reveal, with costs.
    max_steps_ : int
    sparsity_weight_ : float
        The λ that was used.
    constant_loss_ : float
        Cross-entropy of the best constant prediction.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=10, random_state=0).fit(X, y)
    >>> clf.select(X).shape
    (150, 4)
    """

    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[np.int64]:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "O" and any(v is None or v != v for v in y):
            raise ValueError("Input y contains NaN: every row needs a class.")
        assert_all_finite(y, input_name="y")
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
        probability = self._predict_final(X)
        return probability / probability.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, from the selected features alone.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        probability = self._predict_final(X)
        return self.classes_[probability.argmax(axis=1)]
