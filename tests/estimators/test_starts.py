"""Known values, unavailable units and budgets of fitted models."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from helpers.receipts import sign
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import Acquisition, Explanation, Receipt, SUWRClassifier, verify
from suwr.estimators.verify import Verifier
from suwr.exact import FiniteProblem, PolicyTable, cube, leakage, solve
from suwr.exceptions import StartWarning, UnsupportedModelError
from suwr.narrative.given import Given

pytestmark = pytest.mark.filterwarnings(
    "ignore::suwr.exceptions.StartWarning",
    "ignore::suwr.exceptions.UnusualValueWarning",
    "ignore::suwr.exceptions.UninformativeModelWarning",
)


@pytest.fixture(scope="module")
def binary():
    """A briefly trained model of y = x0 x1 + 2 x2 on {0, 1}⁴."""
    X = np.repeat(cube(4), 12, axis=0).astype(float)
    y = (2 * X[:, 2] + X[:, 0] * X[:, 1]).astype(int)
    model = SUWRClassifier(
        max_epochs=6, training={"hidden_size": 16, "n_predictors": 2}, random_state=0
    )
    return model.fit(X, y), cube(4).astype(float)


def limits(n, n_columns, seed):
    """Random arguments of `select` for n rows."""
    rng = np.random.RandomState(seed)
    return {
        "known": rng.rand(n, n_columns) < 0.3,
        "available": rng.rand(n, n_columns) < 0.7,
        "max_cost": rng.randint(0, 4, n),
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_raw_cells_that_were_not_revealed_change_nothing(mixed_model, seed):
    X = mixed_table(seed=1)[0]
    given = limits(len(X), X.shape[1], seed)
    given["known"] &= X.notna().to_numpy()
    mask = mixed_model.select(X, **given)
    assert (mask >= given["known"]).all()
    assert (~mask).sum() > len(X)
    probability, cost = mixed_model.predict_proba(X, **given), mixed_model.cost(X, **given)
    narratives = mixed_model.explain(X, **given)
    distance = mixed_model.start_distance(X, given["known"])
    bad = type(X)(poisoned_cells(X, mask, OBJECTS, seed), dtype=object)
    np.testing.assert_array_equal(mixed_model.select(bad, **given), mask)
    np.testing.assert_array_equal(mixed_model.predict_proba(bad, **given), probability)
    np.testing.assert_array_equal(mixed_model.cost(bad, **given), cost)
    np.testing.assert_array_equal(mixed_model.start_distance(bad, given["known"]), distance)
    assert mixed_model.explain(bad, **given) == narratives


def test_masks_predictions_costs_and_narratives_agree(mixed_model):
    X = mixed_table(seed=2)[0]
    given = limits(len(X), X.shape[1], 0)
    mask, narratives = mixed_model.select(X, **given), mixed_model.explain(X, **given)
    acquired = mask & ~given["known"]
    np.testing.assert_array_equal(mixed_model.cost(X, **given), acquired.sum(axis=1))
    assert (acquired <= given["available"]).all()
    assert (acquired.sum(axis=1) <= given["max_cost"]).all()
    probability = mixed_model.predict_proba(X, **given)
    np.testing.assert_allclose(mixed_model.predict_masked(X, mask), probability, atol=1e-6)
    for row, narrative in enumerate(narratives):
        known = {n for n, k in zip(X.columns, given["known"][row], strict=True) if k}
        assert set(narrative.given.known) == known
        columns = {c for step in narrative.steps for c in step.columns}
        assert columns | known == set(X.columns[mask[row]])
    endings = {narrative.ended for narrative in narratives}
    assert {"cost", "unavailable"} <= endings
    assert Explanation.from_json(narratives.to_json()) == narratives
    assert Explanation.from_frame(narratives[:15].to_frame()) == narratives[:15]


def test_endings(binary):
    model, rows = binary
    one = model.explain(rows[:1], available=np.zeros(4, bool))[0]
    assert (one.ended, one.steps) == ("unavailable", ())
    assert model.explain(rows[:1], max_cost=0)[0].ended == "cost"
    assert model.explain(rows[:1], exactly=4)[0].ended == "everything"
    text = model.explain(rows[:1], known=["x0"], max_cost=1, exactly=None)[0].text()
    assert text.startswith("Row 0. Known at the start: x0 is 0. Maximum cost: 1. Before anything ")
    assert text.endswith("of 4 features and 1 known in advance.")


def test_a_unit_that_is_not_available_is_replaced_by_the_best_of_the_rest(binary):
    model, rows = binary
    first = model.explain(rows)[0].steps[0].unit
    available = np.array([name != first for name in model.units_.names])
    policy, narrative = model.policy_, model.explain(rows, available=available)[0]
    values = model._encode(model._read(rows[:1]))
    ranked = policy.decide(values, values > 9).raw_logits[0].argsort(descending=True)
    assert model.units_.names[int(ranked[0])] == first
    assert narrative.steps[0].unit == model.units_.names[int(ranked[1])]
    assert not model.select(rows, available=available)[:, ~available].any()


@pytest.mark.parametrize("k", range(5))
def test_exactly_k_units(binary, k):
    model, rows = binary
    masks = model.select(rows, exactly=k)
    assert (masks.sum(axis=1) == k).all()
    # A budget only removes units, so the greedy path of a larger budget contains that of a smaller.
    assert k == 0 or (model.select(rows, exactly=k - 1) <= masks).all()


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("kind", ["max_cost", "exactly"])
def test_budgets_do_not_leak_and_are_no_better_than_the_optimum(binary, k, kind):
    model, rows = binary
    y = (rows[:, 0] * rows[:, 1] + 2 * rows[:, 2]).astype(int)
    problem = FiniteProblem(rows, y, loss="cross_entropy")
    masks = model.select(rows, **{kind: k})
    assert not leakage(problem, PolicyTable.deterministic(problem, masks)).leaks
    probability = model.predict_proba(rows, **{kind: k})
    loss = -np.log(probability[np.arange(16), y]).mean()
    assert loss >= solve(problem, 0.0, max_steps=k).loss - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_known_columns_and_availability_do_not_leak(binary, seed):
    """Masks under any fixed ``known`` and ``available`` are a leak-free policy."""
    model, rows = binary
    rng = np.random.RandomState(seed)
    known, available = rng.rand(4) < 0.4, rng.rand(4) < 0.6
    problem = FiniteProblem(rows, rows[:, 0].astype(int))
    masks = model.select(rows, known=known, available=available)
    report = leakage(problem, PolicyTable.deterministic(problem, masks))
    assert not report.leaks


def test_costs_leak_only_if_they_depend_on_hidden_values(binary):
    model, X = binary
    problem = FiniteProblem(X, np.arange(len(X)))
    prices = np.random.RandomState(0).choice([0.5, 1.0, 2.0], (1, 4)).repeat(len(X), axis=0)
    masks = model.select(X, costs=prices, max_cost=2.0)
    assert not leakage(problem, PolicyTable.deterministic(problem, masks)).leaks
    # A second unit is affordable only if a hidden value is 1.
    hidden = model.select(X, exactly=2).sum(axis=0).argmin()
    prices = np.repeat(2.0 - X[:, [hidden]], 4, axis=1)
    masks = model.select(X, costs=prices, exactly=2)
    assert not masks[:, hidden].any()
    assert leakage(problem, PolicyTable.deterministic(problem, masks)).leaks


def test_availability_that_depends_on_hidden_values_leaks(binary):
    """What the documentation forbids is indeed a leak."""
    model, rows = binary
    problem = FiniteProblem(rows, rows[:, 0].astype(int))
    available = np.ones((16, 4), bool)
    available[:, 2] = rows[:, 3] == 1
    masks = model.select(rows, available=available, exactly=2)
    assert not masks[:, 3].all()
    assert leakage(problem, PolicyTable.deterministic(problem, masks)).leaks


def test_distance_of_a_start_from_training(binary):
    model, rows = binary
    narrative = model.explain(rows)[0]
    assert len(narrative.steps) >= 2
    path = [step.unit for step in narrative.steps]
    # States on the path of the policy are at distance 0.
    for n in range(len(path) + 1):
        assert model.start_distance(rows[:1], path[:n]).tolist() == [0]
    # The second unit alone is not, and neither is one that the policy reveals later or never.
    assert model.start_distance(rows[:1], path[1:2]).tolist() == [1]
    (*_, other) = [name for name in model.units_.names if name not in path[:2]]
    assert model.start_distance(rows[:1], [path[0], other]).tolist() == [1]
    with pytest.warns(StartWarning, match=r"than training: 1\.0 units"):
        model.predict(rows[:1], known=path[1:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartWarning)
        model.select(rows[:1], known=path[:1])


def test_groups_that_are_known_in_part():
    X = np.repeat(cube(3), 12, axis=0).astype(float)
    model = SUWRClassifier(
        groups={"g": [0, 1]},
        max_epochs=2,
        training={"hidden_size": 8, "n_predictors": 2},
        random_state=0,
    ).fit(X, X[:, 0].astype(int))
    narrative = model.explain(X[:1], known=["x0"], exactly=2)[0]
    assert {step.unit for step in narrative.steps} == {"g", "x2"}
    assert model.start_distance(X[:1], ["x0"]).tolist() == [1]
    assert model.cost(X[:1], known=["x0", "x1"], exactly=1).tolist() == [1]
    assert model.select(X[:1], known=["x0", "x1"], exactly=1).all()


def test_receipts_are_verified(mixed_model):
    X = mixed_table(seed=3)[0].iloc[:40]
    given = limits(len(X), X.shape[1], 0)
    narratives = [*mixed_model.explain(X, **given), *mixed_model.explain(X[:9])]
    narratives += mixed_model.explain(X[:9], exactly=2)
    receipts = [narrative.receipt() for narrative in narratives]
    assert [Receipt.from_json(receipt.to_json()) for receipt in receipts] == receipts
    for found in Verifier(mixed_model).verify(receipts):
        assert found, found


def test_forged_receipts_are_not_verified(mixed_model):
    X = mixed_table(seed=3)[0]
    given = limits(len(X), X.shape[1], 0)
    receipts = [narrative.receipt() for narrative in mixed_model.explain(X, **given)]
    receipt = next(
        r for r in receipts if r.narrative.ended == "cost" and r.narrative.given.known and r.steps
    )
    start = receipt.narrative.given
    unit = receipt.steps[0].unit
    forged = [
        {"max_cost": start.max_cost + 1},
        {"max_cost": None},
        {"max_cost": -1.0},
        {"max_cost": "1"},
        {"known": {}},
        {"known": {**start.known, "nothing": 1}},
        {"known": {name: [1] for name in start.known}},
        {"unavailable": [*start.unavailable, unit]},
        {"unavailable": ["nothing"]},
        {"unavailable": [1]},
        {"exactly": 1},
    ]
    for change in forged:
        state = json.loads(receipt.to_json()) | {"given": start.to_dict() | change}
        text = sign(state)
        assert not verify(text, mixed_model), change
    state = json.loads(receipt.to_json())
    assert not verify(sign(state | {"given": None}), mixed_model)
    assert verify(sign(json.loads(receipt.to_json())), mixed_model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": ["x9"]}, "'known' parameter of select must be .* Got 'x9'"),
        ({"known": np.ones((3, 4), bool)}, "'known' parameter of select must be a boolean array"),
        ({"known": np.ones(4)}, r"'known' .* Got shape \(4,\) and dtype float64"),
        ({"available": np.ones(3, bool)}, r"'available' .* of shape \(16, 4\)"),
        ({"available": [["yes"] * 4]}, "'available' .* must be a boolean array"),
        ({"max_cost": -1}, "'max_cost' parameter of select must be a number"),
        ({"max_cost": "much"}, "'max_cost' .* Got 'much'"),
        ({"max_cost": [1, 2]}, "'max_cost' .* one per row"),
        ({"max_cost": float("nan")}, "'max_cost' .* Got nan"),
        ({"max_cost": True}, "'max_cost' .* Got True"),
        ({"exactly": 5}, "'exactly' parameter of select must be at most 4"),
        ({"max_cost": 1, "exactly": 1}, "either 'max_cost' or 'exactly'"),
    ],
)
def test_invalid_limits(binary, arguments, message):
    model, rows = binary
    with pytest.raises(ValueError, match=message):
        model.select(rows, **arguments)


def test_frames_of_masks_are_matched_by_name(mixed_model):
    X = mixed_table(seed=1)[0]
    names = list(X.columns)[::-1]
    given = limits(len(X), X.shape[1], 0)
    frames = {
        key: pd.DataFrame(given[key], columns=X.columns)[names] for key in ("known", "available")
    }
    expected = mixed_model.select(X, **given)[:, ::-1]
    found = mixed_model.select(X[names], max_cost=given["max_cost"], **frames)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="one column per column of the model"):
        mixed_model.select(X, known=frames["known"].drop(columns="age"))


def test_certified_models_take_no_limits(binary):
    model, rows = binary
    certified = model.certify(np.repeat(rows, 5, axis=0), level=0.2)
    with pytest.raises(ValueError, match="certified for one policy"):
        certified.predict(rows, max_cost=1)
    with pytest.raises(ValueError, match="certified for one policy"):
        certified.acquire(known={"x0": 1})
    session = certified.acquire()
    assert session.narrative().certificate
    restored = Acquisition.from_json(session.to_json(), certified)
    assert restored.narrative() == session.narrative()
    # Without the unit, it is another policy.
    assert not session.unavailable("x0").narrative().certificate


def test_pages_show_what_was_given(binary, tmp_path):
    model, rows = binary
    explanation = model.explain(rows[:2], known=["x0"], max_cost=1)
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Known at the start: x0 is 0." in page
    assert "start from nothing, or from the columns" in page
    with pytest.raises(UnsupportedModelError, match="start from nothing"):
        explanation[:1].to_html(tmp_path / "page.html", model=True)


def test_given_is_empty_without_limits(binary):
    model, rows = binary
    plain, same = model.explain(rows), model.explain(rows, available=np.ones(4, bool))
    assert plain == same
    assert not Given()
    assert "given" not in plain[0].to_dict()


def test_masks_have_the_order_of_the_columns_of_the_table(mixed_model):
    X = mixed_table()[0][:40]
    names, turned = list(X.columns), list(X.columns)[::-1]
    known = np.random.RandomState(0).rand(len(X), len(names)) < 0.3
    masks = mixed_model.select(X)
    assert not np.array_equal(masks, masks[:, ::-1])
    other = X[turned]
    np.testing.assert_array_equal(mixed_model.select(other), masks[:, ::-1])
    for method in (mixed_model.select, mixed_model.predict_proba, mixed_model.cost):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StartWarning)
            expected, found = method(X, known=known), method(other, known=known[:, ::-1])
            by_name = method(other, known=pd.DataFrame(known, columns=names))
        expected = expected[:, ::-1] if method == mixed_model.select else expected
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(by_name, expected)
    np.testing.assert_array_equal(
        mixed_model.predict_masked(other, known[:, ::-1]), mixed_model.predict_masked(X, known)
    )
    assert (mixed_model.mask_probability(other, masks[:, ::-1]) == 1).all()
