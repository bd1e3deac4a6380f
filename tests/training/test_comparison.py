"""The comparison of a fit with a constant prediction and a fixed subset."""

import warnings

import numpy as np
import pytest

from suwr import SUWRClassifier
from suwr.exceptions import UninformativeModelWarning
from suwr.training.validation import HeldOutComparison, is_falling


def comparison(**changes):
    values = {
        "n_rows": 100, "objective": 0.5, "constant": 0.7, "fixed_subset": 0.5,
        "mean_cost": 2.0, "constant_error": 0.02, "subset_error": 0.02,
        "effective_rows": 100.0, "loss": 0.7,
    }  # fmt: skip
    return HeldOutComparison(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "n_rows", "weight", "message"),
    [
        ({"objective": 0.69}, 5_000, 0.01, "no better than a constant .* uninformative"),
        ({"objective": 0.71}, 100, 0.01, "constant .* 100 training rows are few"),
        ({"objective": 0.71}, 5_000, 0.2, "constant .* the sparsity weight is large"),
        ({"objective": 0.53}, 5_000, 0.01, "worse than selecting the same features .* too brief"),
        (
            {"objective": 0.69, "effective_rows": 27.4},
            5_000,
            0.01,
            "not clearly better than a constant .* count as 27, which are few",
        ),
        ({"objective": 0.71, "effective_rows": 27.4}, 5_000, 0.01, "no better .* uninformative"),
        ({"mean_cost": 0.0}, 100, 0.01, "selects no features, .* 100 training rows are few"),
    ],
)
def test_a_poor_fit_is_reported_with_a_reason(changes, n_rows, weight, message):
    with pytest.warns(UninformativeModelWarning, match=message):
        comparison(**changes).warn("C", n_rows, weight, 50)


def test_the_cause_is_the_one_that_the_numbers_support():
    with pytest.warns(UninformativeModelWarning, match="the loss to 0.5, but they cost 0.21"):
        comparison(objective=0.71, loss=0.5).warn("C", 100, 0.01, 50, falling=True, tail=0.9)
    with pytest.warns(UninformativeModelWarning, match="'max_epochs' is 30, and .* still falling"):
        comparison(objective=0.71).warn("C", 100, 0.01, 30, falling=True, tail=0.9)
    with pytest.warns(UninformativeModelWarning, match="1 % of the rows have 90 % .*log1p"):
        comparison(objective=0.71).warn("C", 100, 0.01, 50, tail=0.9)


def test_an_objective_that_is_least_at_the_end_is_falling():
    def history(*objectives):
        first = {"phase": "pretraining", "mean_cost": None, "validation_objective": None}
        rest = [{"phase": "actor", "mean_cost": 1.0, "validation_objective": o} for o in objectives]
        last = {"phase": "fine-tuning", "mean_cost": 1.0, "validation_objective": 0.0}
        return [first, *rest, last]

    assert is_falling(history(3.0, 2.0, 1.0))
    assert not is_falling(history(3.0, 1.0, 2.0))
    assert not is_falling(history(1.0, 1.0, 1.0))
    assert not is_falling([])


def test_a_good_fit_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison().warn("C", 5_000, 0.01, 50)
        comparison(objective=0.51).warn("C", 5_000, 0.01, 50)


def test_brief_training_is_the_first_reason():
    with pytest.warns(UninformativeModelWarning, match="brief .'max_epochs' is 3.; try more"):
        comparison(objective=0.71).warn("C", 100, 0.5, 3)


@pytest.mark.slow
def test_noise_warns_and_costs_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    with pytest.warns(UninformativeModelWarning, match="few"):
        model = SUWRClassifier(max_epochs=60, teacher=None, random_state=0).fit(X, y)
    assert model.select(X).sum() == 0
    assert model.validation_["objective"] == pytest.approx(model.validation_["constant"], abs=0.1)
    assert "actor" not in {record["phase"] for record in model.history_}
    assert model.validation_["n_rows"] == 20


def test_effective_rows_of_rare_classes_with_balanced_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.arange(600) % 20 == 0
    X[:, 0] += 5 * y
    model = SUWRClassifier(
        class_weight="balanced",
        max_epochs=10,
        training={"hidden_size": 16},
        teacher=None,
        random_state=0,
    ).fit(X, y)
    # Of 60 held-out rows, 3 have 19 times the weight of the others.
    assert model.validation_["n_rows"] == 60
    assert model.validation_["effective_rows"] == pytest.approx((2 * 57) ** 2 / (57 + 3 * 19**2))


@pytest.mark.slow
def test_the_constant_is_that_of_the_training_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] > 0
    model = SUWRClassifier(
        max_epochs=20, training={"hidden_size": 16}, teacher=None, random_state=0
    )
    model.fit(X, y)
    assert model.validation_["constant"] == pytest.approx(np.log(2), abs=0.01)
    assert model.validation_["objective"] < 0.5
