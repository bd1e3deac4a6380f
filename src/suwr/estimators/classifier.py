"""`SUWRClassifier`: class probabilities from the few features that each row needs."""

from __future__ import annotations

from suwr.estimators.base import BaseSUWR
from suwr.estimators.targets import ClassificationTarget

__all__ = ["SUWRClassifier"]


class SUWRClassifier(ClassificationTarget, BaseSUWR):
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
