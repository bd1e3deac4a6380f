"""`SUWRClassifier`: class probabilities from the few features that each row needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.estimators.base import BaseSUWR
from suwr.estimators.targets import ClassificationTarget, normalised

__all__ = ["SUWRClassifier"]


class SUWRClassifier(ClassificationTarget, BaseSUWR):
    """Leak-free, instance-wise feature selection for classification.

    For each row the model starts blind. At each step it stops, or reveals one more unit, decided
    from what is already revealed; nothing is ever taken back. So the selected features are all that
    the prediction was made of, and the selection itself tells nothing else.

    Parameters
    ----------
    sparsity_weight : float, 'auto' or tuple of two floats, default='auto'
        λ, the price of one unit of feature cost, in nats of cross-entropy. 'auto' is 1 % of the
        cross-entropy of the best constant prediction. A range ``(low, high)`` trains one model for
        all of it; `predict` and its like then take ``sparsity_weight`` or ``mean_features``.
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
    n_predictors : int, default=2
        Networks whose mean is the prediction, an even number. More of them predict better, and
        judge the choices of the policy with less noise, at their price in time.
    max_epochs : int, default=100
        Epochs of policy training; pretraining and fine-tuning add half as many.
    batch_size : int or 'auto', default='auto'
    validation_fraction : float, default=0.1
        Share of the rows that chooses the best epoch.
    trainer : {'auto', 'actor', 'lookahead', 'reinforce'}, default='auto'
        'actor' samples whole rollouts; 'lookahead' differentiates one step ahead and suits images
        and hundreds of units; 'auto' takes the former up to 128 columns or groups, or 32 patches.
        'reinforce' is the objective of the paper's Section 4.2, for comparison.
    network : {'mlp', 'conv'}, default='mlp'
        'conv' begins with convolutions over the masked image and its mask; ``groups`` must be
        `Patches`, and ``n_layers`` does not count.
    training : dict or None, default=None
        For experts: other values for settings of training, by name, as ``{"rollouts": 4}``; see
        `suwr.training.config.Settings`.
    checkpoint : path or None, default=None
        File that holds the state of the fit after every epoch. A fit that was stopped or killed
        goes on from it when called again with the same data and parameters, to the same result;
        a finished fit removes it. Needs ``random_state`` as an int.
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
        The λ that was used; the middle of a range.
    weight_range_ : WeightRange or None
        The range, with the number of units that each place of it takes.
    constant_loss_ : float
        Cross-entropy of the best constant prediction.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> clf.select(X).shape
    (150, 4)
    """

    def predict_proba(
        self,
        X: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """Class probabilities from the selected features alone, (n, n_classes).

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features
            As in `select`.
        """
        return normalised(self._predict_final(X, sparsity_weight, mean_features))

    def predict(
        self,
        X: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[Any]:
        """The most probable class of each row, from the selected features alone.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features
            As in `select`.
        """
        probability = self._predict_final(X, sparsity_weight, mean_features)
        return self.classes_[probability.argmax(axis=1)]
