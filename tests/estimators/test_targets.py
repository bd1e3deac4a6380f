import numpy as np
import pytest
from sklearn.base import clone

from suwr import SUWRClassifier, SUWRRegressor
from suwr.baselines import AllFeaturesClassifier


def test_extreme_targets_are_refused():
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match="finite variance"):
        SUWRRegressor().fit(X, [1e200, -1e200, 0.0])
    with pytest.raises(ValueError, match=r"two classes|Unknown label type"):
        SUWRClassifier().fit(X, [1e258, 1e258, 1e258])


@pytest.mark.parametrize("kind", [SUWRClassifier, SUWRRegressor, AllFeaturesClassifier])
def test_errors_about_arguments_name_the_class(kind):
    with pytest.raises(TypeError, match=f"^{kind.__name__}.__init__.* argument 'foo'"):
        kind(foo=1)
    with pytest.raises(TypeError, match=f"^{kind.__name__}.__init__.* takes 1 positional"):
        kind(1)
    assert clone(kind(max_epochs=3)).max_epochs == 3


def test_errors_have_no_types_of_numpy():
    X = np.zeros((12, 1))
    with pytest.raises(ValueError, match="Got one class: 'a' instead"):
        SUWRClassifier().fit(X, ["a"] * 12)
    with pytest.raises(ValueError, match=r"Got -1.0 instead"):
        SUWRRegressor(sparsity_weight=np.float64(-1)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"a dict\. Got 3 instead"):
        SUWRRegressor(training=np.int64(3)).fit(X, X[:, 0])
