import numpy as np
import pytest

from suwr import SUWRClassifier, SUWRRegressor


def test_extreme_targets_are_refused():
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match="finite variance"):
        SUWRRegressor().fit(X, [1e200, -1e200, 0.0])
    with pytest.raises(ValueError, match=r"two classes|Unknown label type"):
        SUWRClassifier().fit(X, [1e258, 1e258, 1e258])


def test_errors_have_no_types_of_numpy():
    X = np.zeros((12, 1))
    with pytest.raises(ValueError, match="Got one class: 'a' instead"):
        SUWRClassifier().fit(X, ["a"] * 12)
    with pytest.raises(ValueError, match=r"Got -1.0 instead"):
        SUWRRegressor(sparsity_weight=np.float64(-1)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"a dict\. Got 3 instead"):
        SUWRRegressor(training=np.int64(3)).fit(X, X[:, 0])
