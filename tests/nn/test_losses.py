import numpy as np
import pytest
import torch
from sklearn.metrics import (
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
)

from suwr.nn.losses import (
    AbsoluteError,
    CrossEntropy,
    GammaDeviance,
    PinballLoss,
    PoissonDeviance,
    SquaredError,
)

LOSSES = {
    "squared_error": (SquaredError(), mean_squared_error),
    "absolute_error": (AbsoluteError(), mean_absolute_error),
    "quantile": (PinballLoss(0.8), lambda y, p, **k: mean_pinball_loss(y, p, alpha=0.8, **k)),
    "poisson": (PoissonDeviance(), mean_poisson_deviance),
    "gamma": (GammaDeviance(), mean_gamma_deviance),
}
NAMES = sorted(LOSSES)


def column(values):
    return torch.as_tensor(np.asarray(values, dtype=np.float64)).unsqueeze(-1)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    return rng.gamma(1.0, size=41), rng.gamma(2.0, size=41), rng.random(41)


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_scikit_learn(name, values):
    y, prediction, weight = values
    loss, metric = LOSSES[name]
    found = loss.of_prediction(column(prediction), column(y)).numpy()
    assert np.average(found, weights=weight) == pytest.approx(
        metric(y, prediction, sample_weight=weight)
    )
    outputs = column(np.log(prediction) if loss.link == "log" else prediction)
    assert loss.predict(outputs).numpy()[:, 0] == pytest.approx(prediction)
    assert loss.per_row(outputs, column(y)).numpy() == pytest.approx(found)


@pytest.mark.parametrize("name", NAMES)
def test_best_constant_minimises_the_loss(name, values):
    y, _, weight = values
    loss, _ = LOSSES[name]
    best = loss.best_constant(column(y), torch.as_tensor(weight))
    grid = torch.cat([torch.as_tensor(y), torch.linspace(0.01, 4, 300, dtype=torch.float64), best])
    losses = loss.of_prediction(grid.reshape(-1, 1, 1), column(y)) @ torch.as_tensor(weight)
    assert float(losses[-1]) <= float(losses.min()) + 1e-12


def test_constants_in_closed_form(values):
    y, _, weight = values
    ones = torch.ones(41, dtype=torch.float64)
    assert float(AbsoluteError().best_constant(column(y), ones)) == np.median(y)
    for quantile in (0.1, 0.5, 0.75, 0.999):
        found = float(PinballLoss(quantile).best_constant(column(y), ones))
        assert found == np.quantile(y, quantile, method="inverted_cdf")
    for kind in (SquaredError, PoissonDeviance, GammaDeviance):
        found = float(kind().best_constant(column(y), torch.as_tensor(weight)))
        assert found == pytest.approx(np.average(y, weights=weight))


def test_class_frequencies_count_as_one_more_row():
    loss = CrossEntropy(2)
    targets, weight = loss.targets(torch.tensor([0, 0, 1])), torch.tensor([1.0, 1.0, 2.0])
    found = loss.smoothed(targets, weight)
    # Three rows, and one with the weighted frequencies, which are equal.
    assert found.tolist() == [[0.875, 0.125], [0.875, 0.125], [0.125, 0.875]]
    assert loss.best_constant(found, weight).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_regression_are_learned_as_they_are(name, values):
    y, _, weight = values
    assert torch.equal(LOSSES[name][0].smoothed(column(y), torch.as_tensor(weight)), column(y))


@pytest.mark.parametrize("name", NAMES)
def test_scaling_of_targets_and_units(name, values):
    y, prediction, _ = (column(v) for v in values)
    loss, _ = LOSSES[name]
    once, thrice = loss.of_prediction(prediction, y), loss.of_prediction(3 * prediction, 3 * y)
    torch.testing.assert_close(thrice, 3.0**loss.degree * once)
    half = type(loss)(0.8, unit=2.0) if name == "quantile" else type(loss)(unit=2.0)
    torch.testing.assert_close(half.of_prediction(prediction, y), once / 2)


@pytest.mark.parametrize("name", [*NAMES, "cross_entropy"])
def test_which_targets_may_be_averaged(name, values):
    rng = np.random.default_rng(1)
    if name == "cross_entropy":
        loss = CrossEntropy(3)
        parts = [torch.as_tensor(rng.dirichlet(np.ones(3), 41)) for _ in range(4)]
    else:
        loss = LOSSES[name][0]
        parts = [column(rng.gamma(1.0, size=41)) for _ in range(4)]
    first, second, y, other = parts

    def difference(target):
        return loss.of_prediction(first, target) - loss.of_prediction(second, target)

    averaged = difference(y.lerp(other, 0.3))
    linear = torch.allclose(averaged, difference(y).lerp(difference(other), 0.3))
    assert linear == loss.linear_in_targets


@pytest.mark.parametrize("kind", [PoissonDeviance, GammaDeviance])
def test_extreme_outputs_stay_finite(kind):
    outputs = torch.tensor([[-500.0], [500.0]], requires_grad=True)
    losses = kind().per_row(outputs, torch.tensor([[0.0], [3.0]]))
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(outputs.grad).all()
