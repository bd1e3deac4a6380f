"""Each method solves an easy problem whose answer is known."""

from functools import partial

import numpy as np
import pytest
import torch
from easy_problems import one_column, switch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

from suwr import Patches, baselines
from suwr.baselines.finetuning import prefix_masks
from suwr.data.units import Units
from suwr.exceptions import ProblemTooLargeError
from suwr.nn.inputs import MaskedInputs
from suwr_experiments.synthetic import relevant_columns, synthetic

QUICK = {"max_epochs": 15, "hidden_size": 32, "n_layers": 2, "random_state": 0}


def fit(name, X, y, **params):
    # Networks that see the whole row learn fast on easy problems.
    if not name.startswith(("GDFS", "DIME")):
        params = {"learning_rate": 1e-2, **params}
    return getattr(baselines, name)(**{**QUICK, **params}).fit(X, y)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("L2X", {"n_units": 1, "max_epochs": 60}),
        ("CAE", {"n_units": 1}),
        ("GDFS", {"max_steps": 1}),
        ("DIME", {"sparsity_weight": 0.05, "max_epochs": 50}),
        ("INVASE", {"sparsity_weight": 0.05, "max_epochs": 40}),
        ("REALX", {"sparsity_weight": 0.05}),
    ],
)
def test_the_informative_column_is_found(method, params, kind):
    X, label, value = one_column()
    y = label if kind == "Classifier" else value
    model = fit(method + kind, X, y, **params)
    masks = model.select(X)
    assert masks[:, 2].mean() > 0.95
    assert masks.sum(axis=1).mean() < 1.6
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("method", ["L2X", "CAE"])
def test_exactly_k_units(method, k):
    X, y, _ = one_column(60)
    model = fit(f"{method}Classifier", X, y, n_units=k, max_epochs=2)
    assert (model.select(X).sum(axis=1) == min(k, 5)).all()
    assert model.n_units_ == min(k, 5)


@pytest.mark.parametrize("method", ["CAE", "AllFeatures", "EVALX", "GlobalOptimum"])
def test_global_methods_select_alike(method):
    X, y, _ = one_column(60)
    params = {"n_units": 2} if method in ("CAE", "GlobalOptimum") else {}
    model = fit(f"{method}Classifier", X.round(), y, **params)
    masks = model.select(X)
    assert (masks == masks[0]).all()
    assert model.leak_free_by_construction
    if not params:
        assert masks.all()


def test_l2x_chooses_per_row():
    """Which column tells the label depends on column 0, which need not be shown."""
    rng = np.random.RandomState(0)
    X = rng.randn(1000, 3)
    y = (np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0).astype(int)
    model = fit("L2XClassifier", X, y, n_units=1, max_epochs=25)
    masks = model.select(X)
    assert model.score(X, y) > 0.85
    right = np.where(X[:, 0] > 0, 1, 2)
    assert masks[np.arange(1000), right].mean() > 0.8


@pytest.mark.parametrize("method", ["GDFS", "DIME"])
def test_greedy_methods_ask_the_control_column_first(method):
    X, y = switch()
    # DIME explores little, as published, and needs longer.
    params = {
        "GDFS": {"max_steps": 2, "max_epochs": 30},
        "DIME": {"sparsity_weight": 0.1, "max_epochs": 80},
    }[method]
    model = fit(f"{method}Classifier", X, y, **params)
    order = model.policy_.rollout(model._encode(model._read(X))).order[:, :, 0]
    assert (order[:, 0] == 0).all()
    np.testing.assert_array_equal(order[:, 1], np.where(X[:, 0] > 0, 1, 2))
    assert model.select(X).sum(axis=1).mean() < 3
    assert model.score(X, y) > 0.95


def test_dime_stops_by_confidence_budget_and_cost():
    X, y = switch()
    sure = fit("DIMEClassifier", X, y, stopping="confidence", confidence=0.9, max_epochs=30)
    done = sure.predict_proba(X).max(axis=1) >= 0.9
    full = sure.select(X).sum(axis=1) == 4
    assert (done | full).all()
    assert done.mean() > 0.5
    assert not full.all()

    costs = {"x0": 1.0, "x1": 2.0}
    bounded = fit("DIMEClassifier", X, y, stopping="budget", budget=2.0, costs=costs, max_epochs=5)
    assert bounded.cost(X).max() <= 2.0
    assert bounded.cost(X).min() > 0

    blind = fit("DIMEClassifier", X, y, sparsity_weight=10.0, max_epochs=3)
    assert not blind.select(X).any()


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_one_greedy_model_predicts_at_every_budget(kind):
    X, label, value = one_column(300)
    y = label if kind == "Classifier" else value
    model = fit(f"GDFS{kind}", X, y, max_steps=3)
    steps = model.predict_steps(X)
    final = model.predict_proba(X) if kind == "Classifier" else model.predict(X)
    assert steps.shape[:2] == (300, 4)
    np.testing.assert_allclose(steps[:, -1], final, atol=1e-6)
    assert np.ptp(steps[:, 0], axis=0).max() == 0
    # The column that tells all is asked for first: one step is as good as three.
    told = steps[:, 1].argmax(axis=1) == y if kind == "Classifier" else abs(steps[:, 1] - y) < 1
    assert told.mean() > 0.9


def test_a_row_that_stopped_keeps_its_prediction():
    X, y = switch()
    model = fit("DIMEClassifier", X, y, stopping="confidence", confidence=0.9, max_epochs=10)
    steps = model.predict_steps(X)
    assert steps.shape[:2] == (len(X), model.max_steps_ + 1)
    assert not np.isnan(steps).any()
    np.testing.assert_allclose(steps[:, -1], model.predict_proba(X), atol=1e-6)


@given(data=st.data())
def test_prefixes_are_the_masks_on_the_way(data):
    n_units, n_columns = 4, 5
    membership = data.draw(arrays(bool, (n_units, n_columns)))
    units = Units(tuple("abcd"), membership, np.ones(n_units))
    inputs = MaskedInputs.build(units, np.arange(n_columns), "cpu")
    order = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 3]), min_size=1, max_size=6))
    length = data.draw(st.integers(0, len(order)))
    expected = np.zeros(n_columns, dtype=bool)
    for unit in order[:length]:
        if unit >= 0:
            expected |= membership[unit]
    mask = prefix_masks(inputs, torch.tensor([order]), torch.tensor([length]))
    np.testing.assert_array_equal(mask[0].numpy(), expected)


def test_every_row_learns_from_few_of_its_steps():
    """What greedy training looks back at must not grow with the number of steps."""
    X, y, _ = one_column(64)
    sizes = set()

    class Counting(baselines.GDFSClassifier):
        def _step_loss(self, network, data, rows, step, *rest):
            sizes.add(step.unit.shape[1])
            assert step.before.shape == (*step.unit.shape, 5)
            revealed = step.after & ~step.before
            assert (revealed.sum(dim=-1) == 1).all()
            assert revealed.gather(-1, step.unit.unsqueeze(-1)).all()
            return super()._step_loss(network, data, rows, step, *rest)

    for steps in (1, 5):
        Counting(**{**QUICK, "max_epochs": 1, "max_steps": steps}).fit(X, y)
    assert max(sizes) == 4 * min(sizes)


def test_a_value_has_no_confidence():
    X, _, value = one_column(60)
    with pytest.raises(ValueError, match="'stopping' parameter of DIMERegressor must be"):
        fit("DIMERegressor", X, value, stopping="confidence")


def test_the_oracle_knows():
    data = synthetic(4, n_rows=600)
    model = fit("OracleClassifier", data.X, data.y, relevant=partial(relevant_columns, 4))
    np.testing.assert_array_equal(model.select(data.X), data.relevant)
    np.testing.assert_array_equal(model.cost(data.X), data.relevant.sum(axis=1))
    X, y, value = one_column()
    model = fit("OracleRegressor", X, value, relevant=[2], max_epochs=30)
    assert model.select(X).sum(axis=0).tolist() == [0, 0, 400, 0, 0]
    assert model.score(X, value) > 0.95
    blind = fit("OracleClassifier", X, y, relevant=[])
    assert len(np.unique(blind.predict_proba(X).round(6), axis=0)) == 1


@pytest.mark.parametrize(
    ("relevant", "message"),
    [([9], "must name columns"), (["a"], "must name columns"), (np.isfinite, "must return bool")],
)
def test_a_wrong_oracle_is_refused(relevant, message):
    X, y, _ = one_column(60)
    given = relevant if isinstance(relevant, list) else (lambda X: np.ones((2, 2)))
    with pytest.raises(ValueError, match=message):
        fit("OracleClassifier", X, y, relevant=given)


def test_the_global_optimum_is_the_exact_one():
    from suwr.exact import FiniteProblem, solve

    rng = np.random.RandomState(0)
    cube = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    y = rng.randn(16)
    for weight in (0.0, 0.05, 0.2, 1.0):
        model = fit("GlobalOptimumRegressor", cube, y, sparsity_weight=weight)
        exact = solve(FiniteProblem(cube, y), weight, method="global")
        error = np.mean((model.predict(cube) - y) ** 2) + weight * model.cost(cube).mean()
        assert error == pytest.approx(exact.objective, abs=1e-5)
    with pytest.raises(ProblemTooLargeError, match="at most 16 units"):
        fit("GlobalOptimumRegressor", rng.randn(20, 17), rng.randn(20))


def test_a_weight_is_a_number_of_rows_to_the_global_optimum():
    rng = np.random.RandomState(0)
    X, weight = rng.randint(0, 2, (60, 3)).astype(float), rng.randint(1, 6, 60)
    y = X[:, 0] + rng.randn(60)
    params = {"random_state": 0, "n_units": 2}
    once = baselines.GlobalOptimumRegressor(**params).fit(X, y, sample_weight=weight)
    often = [np.repeat(part, weight, axis=0) for part in (X, y)]
    repeated = baselines.GlobalOptimumRegressor(**params).fit(*often)
    np.testing.assert_array_equal(once.selected_units_, repeated.selected_units_)
    np.testing.assert_allclose(once.predict(X), repeated.predict(X), rtol=1e-5)


def test_evalx_judges_masks():
    X, y, _ = one_column()
    model = fit("EVALXClassifier", X, y)
    masks = np.zeros_like(X, dtype=bool)
    blind = model.predict_masked(X, masks)
    masks[:, 2] = True
    told = model.predict_masked(X, masks)
    assert np.abs(blind - blind[0]).max() < 1e-5
    assert (told.argmax(axis=1) == y).mean() > 0.95


def test_cae_reveals_the_patches_around_its_pixels():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 25)
    y = (X[:, 12] > 0).astype(int)
    model = fit("CAEClassifier", X, y, n_units=1, groups=Patches((5, 5), size=3))
    assert model.selected_units_.tolist() == [12]
    assert model.select(X)[0].sum() == 9
    assert model.cost(X)[0] == 1


@pytest.mark.parametrize("method", ["L2X", "INVASE", "REALX", "CAE", "GDFS", "DIME"])
def test_groups_are_selected_whole(method):
    X, y, _ = one_column(80)
    model = fit(f"{method}Classifier", X, y, groups={"pair": [1, 2]}, max_epochs=2)
    masks = model.select(X)
    np.testing.assert_array_equal(masks[:, 1], masks[:, 2])
    assert len(model.units_) == 4


@pytest.mark.parametrize("method", ["INVASE", "REALX", "DIME"])
def test_a_high_price_selects_nothing_and_dear_units_are_left_out(method):
    X, y, _ = one_column()
    assert not fit(f"{method}Classifier", X, y, sparsity_weight=50.0, max_epochs=8).select(X).any()
    X2 = np.column_stack([X, X[:, 2]])
    costs = [1, 1, 50, 1, 1, 1]
    model = fit(f"{method}Classifier", X2, y, costs=costs, sparsity_weight=0.05, max_epochs=20)
    masks = model.select(X2)
    assert masks[:, 2].mean() < 0.05
    assert masks[:, 5].mean() > 0.9


def test_no_selection_with_convolutions():
    X, y = load_digits(return_X_y=True)
    model = baselines.AllFeaturesClassifier(
        groups=Patches((8, 8), 1), network="conv", hidden_size=32, max_epochs=8, random_state=0
    ).fit(X[:1200], y[:1200])
    assert type(model.network_.predictor).__name__ == "EnsembleConv"
    assert model.score(X[1200:], y[1200:]) > 0.8
    with pytest.raises(ValueError, match="'network' parameter must be 'mlp' unless"):
        baselines.AllFeaturesClassifier(network="conv").fit(X, y)
