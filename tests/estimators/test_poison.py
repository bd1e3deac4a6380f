"""Unrevealed cells do not influence decisions, and `poison_check` would notice if they did."""

from dataclasses import fields

import numpy as np
import pytest

from suwr.estimators.verify import POISONS, poison_check, poisoned


@pytest.fixture(scope="module")
def models(classifier, regressor, cancer, diabetes):
    return {
        "classifier": (classifier, cancer[0].iloc[:, :10]),
        "regressor": (regressor, diabetes[0]),
    }


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_unrevealed_cells_are_not_read(models, name):
    model, X = models[name]
    report = poison_check(model, X, random_state=0)
    assert report.passed
    assert report.n_rows == len(X)
    assert report.n_cells > len(X)


@pytest.mark.parametrize("name", ["classifier", "regressor"])
@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("size", [1, 7])
def test_replaced_cells_change_nothing_in_small_batches(models, name, poison, size):
    model, X = models[name]
    whole = model.policy_.rollout(model._encode(model._read(X)))
    bad = model._read(poisoned(X, whole.mask, poison, np.random.RandomState(1)))
    for start in range(0, 140, 20):
        rows = slice(start, start + size)
        part = model.policy_.rollout(model._encode(bad.take(rows)))
        np.testing.assert_array_equal(part.mask, whole.mask[rows])
        np.testing.assert_array_equal(part.order, whole.order[rows, : part.order.shape[1]])


def test_a_leaking_policy_is_detected(models):
    model, X = models["classifier"]
    table = model._read(X)
    inputs = model.policy_.inputs

    class Peeking(type(inputs)):
        def reveal(self, values, mask):
            shown = super().reveal(values, mask)
            return shown + 0.01 * values.nan_to_num()[:, :1]

    leaking = Peeking(**{field.name: getattr(inputs, field.name) for field in fields(inputs)})
    try:
        model.policy_.inputs = leaking
        report = poison_check(model, X, random_state=0)
    finally:
        model.policy_.inputs = inputs
    assert report.n_changed > 0
    assert table.n_rows == report.n_rows
