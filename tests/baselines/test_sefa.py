"""SEFA: encoders, gradients and scores against automatic differentiation, and stopping."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from helpers.models import fit
from helpers.tables import one_column, switch
from suwr.baselines.greedy import Stopping
from suwr.baselines.sefa import SEFANetwork, bottleneck, vjp
from suwr.data.units import Units
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, SquaredError
from suwr.nn.networks import Architecture

# Column 1 has three encoded values.
COLUMN_OF = np.array([0, 1, 1, 1, 2, 3])
PARTS = {"n_samples": 10, "n_training_samples": 5}


def make_network(loss, n_outputs, membership=None, n_samples=7):
    torch.manual_seed(0)
    n_columns = 4
    groups = np.eye(n_columns, dtype=bool) if membership is None else membership
    units = Units(tuple("abcdef"[: len(groups)]), groups, np.ones(len(groups)))
    inputs = MaskedInputs.build(units, COLUMN_OF, "cpu")
    architecture = Architecture(
        n_values=len(COLUMN_OF), n_columns=n_columns, n_units=len(groups), n_outputs=n_outputs,
        hidden_size=9, n_layers=2, n_members=n_samples,
    )  # fmt: skip
    return SEFANetwork(architecture, inputs, loss, 3, 5, Stopping())


def seen_rows(network, n=6):
    rng = torch.Generator().manual_seed(1)
    values = torch.randn(n, len(COLUMN_OF), generator=rng)
    mask = torch.rand(n, 4, generator=rng) < 0.4
    return network.units.reveal(values, mask)


def brute_force_scores(network, seen, membership):
    """Scores of hidden units, one row, class and sample at a time, as published."""
    n_units, hidden = len(membership), seen[:, len(COLUMN_OF) :] < 0.5
    scores = torch.zeros(len(seen), n_units)
    classes = network.architecture.n_outputs
    for row in range(len(seen)):
        mean, std = (part[0] for part in network.encode(seen[row : row + 1]))
        latent = [(mean + std * noise).detach().requires_grad_() for noise in network.noise]
        outputs = [network.predictor(z[None, None])[0, 0] for z in latent]
        samples = network.loss.predict(torch.stack(outputs))
        weights = samples.mean(dim=0).detach() if classes > 1 else torch.ones(1)
        for number in range(classes):
            for z, prediction in zip(latent, samples, strict=True):
                gradient = torch.autograd.grad(prediction[number], z, retain_graph=True)[0]
                by_column = gradient.reshape(4, 3)
                whole = torch.stack([by_column[columns].norm() for columns in membership])
                own = [by_column[columns & hidden[row]].norm() for columns in membership]
                share = torch.stack(own) / (whole.sum() + 1e-6)
                scores[row] += weights[number] * share / len(latent)
    return scores


@pytest.mark.parametrize("n_layers", [1, 3])
def test_gradients_are_those_of_automatic_differentiation(n_layers):
    torch.manual_seed(0)
    network = EnsembleMLP(2, 5, 8, n_layers, 3)
    # Inputs of a scale that reaches every part of the activation function.
    x = (4.0 * torch.randn(2, 50, 5)).requires_grad_()
    weights = torch.randn(2, 50, 3)
    outputs = network(x)
    expected = torch.autograd.grad((outputs * weights).sum(), x)[0]
    with torch.inference_mode():
        found, gradients = vjp(network, x.detach().clone())
        torch.testing.assert_close(gradients(weights.clone()), expected)
    torch.testing.assert_close(found, outputs, rtol=0, atol=0)


OVERLAPPING = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)


@pytest.mark.parametrize("membership", [None, OVERLAPPING], ids=["columns", "groups"])
@pytest.mark.parametrize("n_outputs", [1, 2, 4])
def test_scores_are_normalised_gradients(n_outputs, membership):
    loss = SquaredError() if n_outputs == 1 else CrossEntropy(n_outputs)
    network = make_network(loss, n_outputs, membership).eval()
    groups = np.eye(4, dtype=bool) if membership is None else membership
    seen = seen_rows(network)
    expected = brute_force_scores(network, seen, torch.as_tensor(groups))
    with torch.inference_mode():
        scores, prediction = network.scores(seen)
        mean = loss.predict(network.predict(seen)).mean(dim=0)
    hidden = network.units.available(seen[:, len(COLUMN_OF) :] > 0.5)
    assert hidden.any()
    assert not hidden.all()
    torch.testing.assert_close(scores[hidden], expected[hidden], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(prediction, mean)


def test_each_column_has_its_own_encoder():
    network = make_network(CrossEntropy(2), 2)
    seen = network.units.reveal(torch.randn(1, len(COLUMN_OF)), torch.ones(1, 4, dtype=torch.bool))
    before = torch.stack(network.encode(seen)).unflatten(-1, (4, 3))
    assert (before[1] > 0).all()
    for value, column in enumerate(COLUMN_OF):
        changed = seen.clone()
        changed[0, value] += 1.0
        after = torch.stack(network.encode(changed)).unflatten(-1, (4, 3))
        differs = (after != before).any(dim=-1).any(dim=0)[0]
        assert differs.tolist() == [column == other for other in range(4)]


def test_bottleneck_is_the_divergence_from_a_standard_normal_distribution():
    torch.manual_seed(0)
    mean, std = torch.randn(4, 6), torch.rand(4, 6) + 0.1
    distributions = torch.distributions.Normal(mean, std), torch.distributions.Normal(0.0, 1.0)
    expected = torch.distributions.kl_divergence(*distributions).sum(dim=1)
    torch.testing.assert_close(bottleneck(mean, std), expected)


def test_a_large_bottleneck_weight_removes_all_information():
    X, y, _ = one_column(300)
    divergence, scores = [], []
    for weight in (5e-4, 50.0):
        model = fit("SEFAClassifier", X, y, bottleneck_weight=weight, max_steps=1, **PARTS)
        values = model._encode(model._read(X))
        seen = model.policy_.inputs.reveal(values, torch.ones(X.shape, dtype=torch.bool))
        with torch.no_grad():
            divergence.append(float(bottleneck(*model.policy_.network.encode(seen)).mean()))
        scores.append(model.score(X, y))
    assert divergence[1] < 0.1 * divergence[0]
    assert scores[0] > 0.9 > 0.7 > scores[1]


@pytest.mark.slow
def test_jointly_informative_columns_are_found():
    """Neither x1 nor x3 has any information alone, so that a greedy method would find noise."""
    X = np.random.RandomState(0).randn(1000, 5)
    y = (X[:, 1] * X[:, 3] > 0).astype(int)
    model = fit("SEFAClassifier", X, y, max_steps=2, max_epochs=30, **PARTS)
    masks = model.select(X)
    assert masks[:, [1, 3]].all(axis=1).mean() > 0.95
    assert model.score(X, y) > 0.85


@pytest.fixture(scope="module")
def confident():
    X, y = switch(600)
    model = fit(
        "SEFAClassifier", X, y, stopping="confidence", confidence=0.9, max_steps=None, **PARTS
    )
    return model, X, y


def test_rows_stop_by_confidence(confident):
    model, X, y = confident
    done = model.predict_proba(X).max(axis=1) >= 0.9
    size = model.select(X).sum(axis=1)
    assert (done | (size == 4)).all()
    assert done.mean() > 0.9
    assert size.mean() < 3
    assert model.score(X, y) > 0.95
    steps = model.predict_steps(X)
    np.testing.assert_allclose(steps[:, -1], model.predict_proba(X), atol=1e-6)
    # Training does not depend on the stopping rule, and validation spends the whole budget.
    assert all(record["mean_cost"] == 4 for record in model.history_)


def test_a_copy_makes_the_same_decisions(confident):
    model, X, _ = confident
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.select(X), model.select(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_row_alone_has_the_prediction_of_its_batch(confident):
    model, X, _ = confident
    X = X + 0.3 * np.random.RandomState(2).randn(*X.shape)
    whole = model.predict_proba(X)
    for number in (0, 17, 599):
        np.testing.assert_array_equal(model.predict_proba(X[number : number + 1])[0], whole[number])


def test_sampled_policies_draw_units_by_their_scores(confident):
    model, X, _ = confident
    empty = torch.zeros(1, 8)
    scores = model.policy_.network.scores(empty)[0][0]
    drawn = model.select(
        np.repeat(X[:1], 4000, axis=0), policy="sampled", random_state=0, max_cost=1.0
    )
    expected = (scores / scores.sum()).detach().numpy()
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.03)
    alone = model.select(X[:1], policy="sampled", random_state=0, max_cost=1.0)
    np.testing.assert_array_equal(alone[0], drawn[0])


def test_the_budget_limits_the_cost():
    X, y, _ = one_column(60)
    params = {"costs": [1.0, 2.0, 3.0, 1.0, 2.0], "max_epochs": 2, **PARTS}
    model = fit("SEFAClassifier", X, y, max_cost=4.0, **params)
    assert 1.0 <= model.cost(X).max() <= 4.0
    assert (fit("SEFAClassifier", X, y, max_steps=3, **params).select(X).sum(axis=1) == 3).all()


def test_regression_does_not_stop_by_confidence():
    X, _, value = one_column(60)
    with pytest.raises(ValueError, match="'stopping' parameter of SEFARegressor must be"):
        fit("SEFARegressor", X, value, stopping="confidence")


def test_early_stopping_keeps_the_best_epoch():
    X, y, _ = one_column(60)
    labels = np.random.RandomState(0).permutation(y)
    model = fit("SEFAClassifier", X, labels, max_epochs=100, patience=2, **PARTS)
    objectives = [record["validation_objective"] for record in model.history_]
    assert len(objectives) == int(np.argmin(objectives)) + 3 < 100


def test_hidden_cells_of_a_frame_are_not_read():
    """Predictions and rollouts are the same, bit for bit, whatever the hidden raw cells hold."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], 200),
            "size": rng.randn(200),
            "flag": rng.rand(200) < 0.5,
            "noise": rng.randn(200),
        }
    )
    y = np.where(X["flag"], X["colour"] == "red", X["size"] > 0).astype(int)
    model = fit("SEFAClassifier", X, y, max_steps=2, max_epochs=20, **PARTS)
    masks = model.select(X)
    assert len(np.unique(masks, axis=0)) > 1
    poisoned = X.astype(object).mask(~masks, "no such value")
    np.testing.assert_array_equal(model.select(poisoned), masks)
    np.testing.assert_array_equal(model.predict_proba(poisoned), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict_steps(poisoned), model.predict_steps(X))
