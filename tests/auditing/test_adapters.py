"""Adapters for the attributions of other libraries."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LinearRegression, LogisticRegression

from suwr.auditing import audit, top_k
from suwr.auditing.adapters import TopK, from_captum, from_lime, from_shap, from_tabnet

X = np.random.default_rng(0).normal(size=(200, 4))
W = np.array([1.0, -2.0, 0.5, 0.1])


def leaks(selector):
    """Audit a selector on the rows above, whose columns are independent."""
    return audit(selector, X, random_state=0, gaps=False, n_probes=500, support="product").leaks


@given(
    arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(-9, 9)),
    st.integers(0, 6),
)
def test_top_k_selects_the_largest(scores, k):
    k = min(k, scores.shape[1])
    masks = top_k(scores, k)
    assert (masks.sum(axis=1) == k).all()
    for row, mask in zip(scores, masks, strict=True):
        if 0 < k < len(row):
            assert row[mask].min() >= row[~mask].max()


def test_top_k_rejects_invalid_parameters():
    with pytest.raises(
        ValueError, match=r"'k' parameter of top_k must be an int in the range \[0, 2\]"
    ):
        top_k([[1.0, 2.0]], 3)
    with pytest.raises(ValueError, match=r"Got 1\.5 instead"):
        top_k([[1.0, 2.0]], 1.5)
    with pytest.raises(ValueError, match="one row per row"):
        top_k([1.0], 1)


def test_top_k_of_attributions_leaks():
    assert leaks(TopK(lambda X: X * W, k=1))


def test_shap_values_with_one_or_more_outputs():
    one = from_shap(lambda X: SimpleNamespace(values=X * W), k=2)
    np.testing.assert_array_equal(one.select(X), top_k(abs(X * W), 2))

    def many(X):
        return SimpleNamespace(values=np.stack([X * W, X], axis=2))

    np.testing.assert_array_equal(from_shap(many, 2, output=1).select(X), top_k(abs(X), 2))
    both = top_k(abs(X * W) + abs(X), 2)
    np.testing.assert_array_equal(from_shap(many, 2).select(X), both)


def test_lime_weights():
    class Explainer:
        def explain_instance(self, row, predict, num_features):
            weights = [(j, float(v)) for j, v in enumerate(row * W)]
            return SimpleNamespace(as_map=lambda: {1: weights})

    selector = from_lime(lambda X: X, k=2, explainer=Explainer())
    np.testing.assert_array_equal(selector.select(X[:5]), top_k(abs(X[:5] * W), 2))
    with pytest.raises(ValueError, match="requires either"):
        from_lime(lambda X: X, k=2)


def test_captum_attributions():
    torch = pytest.importorskip("torch")

    class Method:
        @staticmethod
        def forward_func(inputs):
            return torch.stack([inputs[:, 0], inputs[:, 1]], dim=1)

        def attribute(self, inputs, target):
            assert target.shape == (len(inputs),)
            return inputs * torch.as_tensor(W, dtype=inputs.dtype)

    selector = from_captum(Method(), k=2)
    np.testing.assert_array_equal(selector.select(X), top_k(abs((X * W).astype("float32")), 2))


def test_tabnet_masks():
    model = SimpleNamespace(explain=lambda X: (np.maximum(X, 0), {}))
    np.testing.assert_array_equal(from_tabnet(model).select(X), X > 0)
    np.testing.assert_array_equal(from_tabnet(model, k=1).select(X), top_k(np.maximum(X, 0), 1))


def test_real_shap():
    shap = pytest.importorskip("shap")
    model = LinearRegression().fit(X, X @ W)
    selector = from_shap(shap.LinearExplainer(model, X), k=2)
    assert leaks(selector)


@pytest.mark.slow
def test_real_lime():
    pytest.importorskip("lime.lime_tabular")
    model = LogisticRegression().fit(X, X @ W > 0)
    selector = from_lime(model.predict_proba, k=2, background=X, num_samples=50)
    report = audit(
        selector, X, random_state=0, gaps=False, n_probes=100, max_rows=20, support="product"
    )
    assert report.leaks
    assert not report.stochastic


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Saliency", "IntegratedGradients", "FeatureAblation"])
def test_real_captum(method):
    pytest.importorskip("captum.attr")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    selector = from_captum(method, k=2, model=net)
    assert leaks(selector)
