"""Which selections depend on unselected values, on a problem that can be enumerated."""

from dataclasses import fields
from itertools import product

import numpy as np
import pytest

from helpers.tables import switch
from suwr import baselines
from suwr.estimators.verify import POISONS, poison_check, poisoned

QUICK = {"max_epochs": 20, "hidden_size": 32, "n_layers": 2, "random_state": 0}
FEW_SAMPLES = {"n_samples": 5, "n_training_samples": 5}


def count_leaks(cube, masks):
    """Pairs of rows that agree on the columns selected in the first, but differ in selection."""
    count = 0
    for i, mask in enumerate(masks):
        for j in range(len(cube)):
            same = (cube[i, mask] == cube[j, mask]).all()
            count += bool(same and (masks[i] != masks[j]).any())
    return count


@pytest.fixture(scope="module")
def toy():
    """Column 0 determines which of columns 1 and 2 is the label."""
    cube = np.array(list(product([0.0, 1.0], repeat=3)))
    X = np.repeat(cube, 40, axis=0)
    y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]).astype(int)
    return cube, X, y


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("L2X", {"max_steps": 1}),
        pytest.param("INVASE", {"sparsity_weight": 0.1, "max_epochs": 60}, marks=pytest.mark.slow),
        pytest.param("REALX", {"sparsity_weight": 0.32, "max_epochs": 60}, marks=pytest.mark.slow),
    ],
)
def test_selectors_of_the_whole_row_leak(toy, method, params):
    cube, X, y = toy
    params = {"learning_rate": 1e-2, **params}
    model = getattr(baselines, f"{method}Classifier")(**{**QUICK, **params}).fit(X, y)
    assert not model.leak_free_by_construction
    assert count_leaks(cube, model.select(cube)) > 0


SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("GDFS", "DIME")]


@pytest.mark.parametrize("method", [*SLOW, "SEFA", "CAE", "AllFeatures", "GlobalOptimum"])
def test_sequential_and_global_methods_do_not_leak(toy, method):
    cube, X, y = toy
    params = {"max_steps": 2} if method in ("GDFS", "SEFA", "CAE") else {}
    params |= FEW_SAMPLES if method == "SEFA" else {}
    model = getattr(baselines, f"{method}Classifier")(**{**QUICK, **params}).fit(X, y)
    assert model.leak_free_by_construction
    assert count_leaks(cube, model.select(cube)) == 0


@pytest.fixture(scope="module", params=["GDFS", "DIME", "DIME by confidence", "SEFA by confidence"])
def sequential(request):
    X, y = switch(600)
    X = X + 0.2 * np.random.RandomState(1).randn(*X.shape)
    method, _, stopping = request.param.partition(" by ")
    params = {"stopping": stopping} if stopping else {}
    params |= FEW_SAMPLES if method == "SEFA" else {}
    kind = getattr(baselines, f"{method}Classifier")
    return kind(**{**QUICK, "max_epochs": 3, "max_steps": 2, **params}).fit(X, y), X


def test_unrevealed_values_are_not_read(sequential):
    model, X = sequential
    report = poison_check(model, X, random_state=0)
    assert report.passed
    assert report.n_cells > len(X)


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_rows_in_small_batches_have_the_same_rollouts(sequential, poison):
    model, X = sequential
    whole = model.policy_.rollout(model._encode(model._read(X)))
    corrupted = model._read(poisoned(X, whole.mask, poison, np.random.RandomState(1)))
    for start in range(0, 100, 20):
        rows = slice(start, start + 7)
        part = model.policy_.rollout(model._encode(corrupted.take(rows)))
        np.testing.assert_array_equal(part.mask, whole.mask[rows])
        np.testing.assert_array_equal(part.order, whole.order[rows, : part.order.shape[1]])


def test_the_poison_check_detects_a_leak(sequential):
    model, X = sequential
    inputs = model.policy_.inputs

    class Leaking(type(inputs)):
        def reveal(self, values, mask):
            return super().reveal(values, mask) + 0.01 * values.nan_to_num().sum(1, keepdim=True)

    try:
        given = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
        model.policy_.inputs = Leaking(**given)
        assert not poison_check(model, X, random_state=0).passed
    finally:
        model.policy_.inputs = inputs


def test_explanations_and_mask_probabilities(sequential):
    model, X = sequential
    narrative = model.explain(X[:3])[0]
    assert len(narrative.steps) >= 1
    masks = model.select(X)
    np.testing.assert_allclose(model.predict_masked(X, masks), model.predict_proba(X), atol=1e-6)
    assert (model.mask_probability(X[:5], masks[:5], policy="greedy") == 1).all()
    session = model.acquire()
    assert session.next_unit is not None
