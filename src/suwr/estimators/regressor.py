"""`SUWRRegressor`: a value from the few features that each row needs."""

from __future__ import annotations

from suwr.estimators.base import BaseSUWR
from suwr.estimators.targets import RegressionTarget

__all__ = ["SUWRRegressor"]


class SUWRRegressor(RegressionTarget, BaseSUWR):
    """Leak-free, instance-wise feature selection for regression with squared error.

    As `SUWRClassifier`, of which it takes all parameters; ``sparsity_weight`` (λ) is in units of
    the user's own squared error, and 'auto' is 1 % of the variance of ``y``.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had column names.
    units_ : Units
        What a step can reveal, with costs.
    max_steps_ : int
    sparsity_weight_ : float
        The λ that was used.
    constant_loss_ : float
        Squared error of the best constant prediction: the variance of ``y``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr import SUWRRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> reg = SUWRRegressor(max_epochs=10, random_state=0).fit(X, y)
    >>> reg.predict(X).shape
    (442,)
    """
