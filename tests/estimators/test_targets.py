import numpy as np
import pytest

from suwr import SUWRClassifier, SUWRRegressor


def test_extreme_targets_are_refused():
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match="finite variance"):
        SUWRRegressor().fit(X, [1e200, -1e200, 0.0])
    with pytest.raises(ValueError, match=r"two classes|Unknown label type"):
        SUWRClassifier().fit(X, [1e258, 1e258, 1e258])
