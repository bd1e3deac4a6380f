"""Costs of each row, and costs as a function of the mask, of fitted models."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

import suwr
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import Acquisition, Costs, Explanation, SUWRClassifier, SUWRExplainer, SUWRRegressor
from suwr.baselines import GDFSClassifier
from suwr.deploy import ModelPolicy
from suwr.estimators.verify import Verifier
from suwr.exceptions import ModelFileError, ReceiptError, UnsupportedModelError

SMALL = {"max_epochs": 3, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
CUBE = np.array(list(product([0.0, 1.0], repeat=4)))
X = np.repeat(CUBE, 10, axis=0)
PRICES = np.random.RandomState(0).choice([0.5, 1.0, 2.0, 4.0], X.shape)
pytestmark = pytest.mark.filterwarnings(
    "ignore::suwr.exceptions.UninformativeModelWarning",
    "ignore::suwr.exceptions.StartWarning",
    "ignore::suwr.exceptions.UnusualValueWarning",
)


@pytest.fixture(scope="module")
def model():
    return SUWRClassifier(sparsity_weight=0.001, **SMALL).fit(X, X[:, 0], costs=PRICES)


def draw_costs(mask):
    """One per unit, and 2 more for x0 and x1 unless one of them was acquired."""
    unpaid = ~mask[:, :2].any(axis=1, keepdims=True)
    return 1.0 + 2.0 * unpaid * [1, 1, 0, 0]


@pytest.fixture(scope="module")
def discounted():
    return SUWRClassifier(costs=draw_costs, sparsity_weight=0.001, **SMALL).fit(X, X[:, 0])


def test_each_row_pays_its_own_costs(model):
    prices = PRICES[:16]
    for limits in ({}, {"max_cost": 3}, {"exactly": 3.5}, {"known": ["x1"], "max_cost": 2.5}):
        masks = model.select(CUBE, costs=prices, **limits)
        known = np.isin(["x0", "x1", "x2", "x3"], limits.get("known", []))
        expected = ((masks & ~known) * prices).sum(axis=1)
        found = model.cost(CUBE, costs=prices, **limits)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        most = limits.get("max_cost", limits.get("exactly", np.inf))
        assert (found <= most).all()
        narratives = model.explain(CUBE, costs=pd.DataFrame(prices, columns=model.units_.names),
                                   **limits)  # fmt: skip
        assert [n.given.costs["x3"] for n in narratives] == prices[:, 3].tolist()
        assert Explanation.from_json(narratives.to_json()) == narratives
        assert Explanation.from_frame(narratives.to_frame()) == narratives
        assert all(Verifier(model).verify([n.receipt() for n in narratives]))
    # What is left of the budget does not cover any further unit.
    masks = model.select(CUBE, costs=prices, exactly=3.5)
    left = 3.5 - (masks * prices).sum(axis=1)
    assert (np.where(masks, np.inf, prices).min(axis=1) > left).all()
    # Without a budget, costs change no decision.
    np.testing.assert_array_equal(model.select(CUBE, costs=prices), model.select(CUBE))
    np.testing.assert_array_equal(model.predict(CUBE, costs=prices), model.predict(CUBE))


def test_rows_without_costs_pay_the_means(model, tmp_path):
    # The rows of weight 0 do not count.
    weight = np.arange(len(X)) % 2
    fitted = SUWRClassifier(**SMALL | {"max_epochs": 1}).fit(X, X[:, 0], weight, costs=PRICES)
    np.testing.assert_allclose(fitted.units_.costs, PRICES[1::2].mean(axis=0))
    np.testing.assert_allclose(model.units_.costs, PRICES.mean(axis=0))
    np.testing.assert_allclose(model.cost(CUBE), model.select(CUBE) @ PRICES.mean(axis=0))
    evaluation = model.evaluate(X, X[:, 0], costs=PRICES)
    paid = (model.select(X) * PRICES).sum(axis=1).mean()
    assert evaluation["cost"] == pytest.approx(paid)
    assert evaluation.all_features["cost"] == pytest.approx(PRICES.sum(axis=1).mean())
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr")
    np.testing.assert_array_equal(loaded.units_.costs, model.units_.costs)
    np.testing.assert_array_equal(
        loaded.cost(CUBE, costs=PRICES[:16]), model.cost(CUBE, costs=PRICES[:16])
    )


def test_sessions_decide_as_tables(model):
    for row, prices in zip(CUBE, PRICES, strict=False):
        narrative = model.explain([row], costs=[prices], max_cost=3)[0]
        session = model.acquire(
            costs=dict(zip(model.units_.names, prices, strict=True)), max_cost=3
        )
        while not session.done:
            before = session.cost + session.next_cost
            session.observe({name: row[int(name[1])] for name in session.next_columns})
            assert session.cost == pytest.approx(before)
        assert session.next_cost == 0
        assert session.narrative(0) == narrative
        assert session.cost == pytest.approx(model.cost([row], costs=[prices], max_cost=3)[0])
        restored = Acquisition.from_json(session.to_json(), model)
        assert (restored.given, restored.cost) == (session.given, session.cost)
    assert model.acquire(costs={"x1": 7}).given.costs == {
        **dict(zip(model.units_.names, model.units_.costs, strict=True)), "x1": 7.0,
    }  # fmt: skip
    assert "Costs of this row: x0 " in narrative.text()


def test_forged_costs_are_refused(model):
    receipt = json.loads(model.explain(CUBE[:1], costs=PRICES[:1])[0].receipt().to_json())
    for costs in ({"x0": -1.0}, {"x0": "1"}, {}, [], {"y": 1.0}, {"x0": float("nan")}):
        forged = {**receipt, "given": {**receipt["given"], "costs": costs}}
        with pytest.raises(ReceiptError):
            suwr.Receipt.from_json(json.dumps(forged))


@pytest.mark.parametrize("seed", [0, 1])
def test_raw_cells_that_were_not_revealed_change_nothing(mixed_model, seed):
    table = mixed_table(seed=1)[0]
    rng = np.random.RandomState(seed)
    given = {"costs": rng.choice([0.0, 0.5, 2.0], table.shape), "max_cost": rng.randint(0, 4, 40)}
    given = {name: value[: len(table)] for name, value in given.items()}
    given["max_cost"] = np.resize(given["max_cost"], len(table))
    mask = mixed_model.select(table, **given)
    assert mask.any()
    assert (~mask).sum() > len(table)
    probability, cost = mixed_model.predict_proba(table, **given), mixed_model.cost(table, **given)
    narratives = mixed_model.explain(table, **given)
    np.testing.assert_allclose(cost, (mask * given["costs"]).sum(axis=1))
    bad = type(table)(poisoned_cells(table, mask, OBJECTS, seed), dtype=object)
    np.testing.assert_array_equal(mixed_model.select(bad, **given), mask)
    np.testing.assert_array_equal(mixed_model.predict_proba(bad, **given), probability)
    np.testing.assert_array_equal(mixed_model.cost(bad, **given), cost)
    assert mixed_model.explain(bad, **given) == narratives


@pytest.mark.parametrize(
    ("kind", "trainer", "max_epochs"),
    # A classifier trained by look-ahead stops by its uncertainty, and reads no price.
    [
        pytest.param(SUWRClassifier, "actor", 100, marks=pytest.mark.slow),
        pytest.param(SUWRRegressor, "lookahead", 12, marks=pytest.mark.slow),
        (SUWRClassifier, "reinforce", 20),
    ],
)
def test_a_policy_that_reads_the_price_buys_only_what_is_cheap(kind, trainer, max_epochs):
    rng = np.random.RandomState(0)
    cheap, x = rng.rand(2, 600) < 0.5
    costs = np.column_stack([np.ones(600), np.where(cheap, 0.1, 10.0)])
    table = pd.DataFrame({"cheap": cheap.astype(float), "x": x.astype(float)})
    settings = {**SMALL, "max_epochs": max_epochs, "trainer": trainer, "sparsity_weight": 0.1}
    y = x if kind is SUWRClassifier else x.astype(float)
    fitted = kind(known_at_start=["cheap"], **settings).fit(table, y, costs=costs)
    # Worth log 2 = 0.69, or a squared error of 0.25: bought for 0.01, not for 1.
    np.testing.assert_array_equal(fitted.select(table)[:, 1], cheap)
    assert fitted.report_["cost"] == pytest.approx(0.05, abs=0.02)


def test_wide_tables_are_screened_with_their_costs():
    rng = np.random.RandomState(0)
    table = rng.randn(300, 30)
    costs = rng.choice([1.0, 2.0], table.shape)
    fitted = SUWRRegressor(trainer="actor", **SMALL | {"max_epochs": 1})
    fitted.fit(table, table[:, 7], costs=costs)
    assert not fitted.selectable_units_.all()
    expected = (fitted.select(table) * costs).sum(axis=1)
    np.testing.assert_allclose(fitted.cost(table, costs=costs), expected)
    scaled = SUWRRegressor(trainer="actor", costs=lambda mask: np.full(mask.shape, 2.0),
                           **SMALL | {"max_epochs": 1}).fit(table, table[:, 7])  # fmt: skip
    np.testing.assert_allclose(scaled.cost(table), 2 * scaled.select(table).sum(axis=1))


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_errors(model):
    with pytest.raises(ValueError, match=r"'costs' parameter of select must be .*\(16, 4\)"):
        model.select(CUBE, costs=PRICES)
    with pytest.raises(ValueError, match="'costs' parameter of predict must hold finite"):
        model.predict(CUBE, costs=-PRICES[:16])
    with pytest.raises(ValueError, match="'costs' parameter of fit must hold finite"):
        SUWRClassifier(**SMALL).fit(X, X[:, 0], costs=np.where(X > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match=r"'costs' .* must be None if fit is given the costs"):
        SUWRClassifier(costs=[1, 2, 3, 4], **SMALL).fit(X, X[:, 0], costs=PRICES)
    with pytest.raises(ValueError, match="no unit 'y'"):
        model.acquire(costs={"y": 1})
    with pytest.raises(ValueError, match="at most 2, the largest cost"):
        model.select(CUBE, costs=np.full((16, 4), 0.5), exactly=3)
    certified = model.certify(X, X[:, 0], level=0.5)
    with pytest.raises(ValueError, match="'exactly' or 'costs', because the model is certified"):
        certified.select(CUBE, costs=PRICES[:16])
    with pytest.raises(UnsupportedModelError, match="start from nothing"):
        model.explain(CUBE, costs=PRICES[:16]).source.model()


def test_forged_files(model):
    from suwr.estimators.container import pack, unpack
    from suwr.estimators.files import from_bytes, to_bytes

    text, tensors = unpack(to_bytes(model), "m")
    state = json.loads(text)
    assert state["format"] == 2
    for costs in ([1.0], [-1.0] * 4, [float("inf")] * 4, "free"):
        with pytest.raises(ModelFileError):
            from_bytes(pack(json.dumps({**state, "mean_costs": costs}), dict(tensors)))


# Functions of the mask.


def test_a_function_can_describe_set_up_costs(discounted):
    """The costs of a function are those of the same set-up costs."""
    setups = {"draw": (2.0, ["x0", "x1"])}
    other = SUWRClassifier(costs=Costs(setup=setups), sparsity_weight=0.001, **SMALL).fit(
        X, X[:, 0]
    )
    for limits in ({}, {"max_cost": 4}, {"known": ["x1"], "max_cost": 4}):
        for fitted in (discounted, other):
            for cost, narrative in zip(
                fitted.cost(CUBE, **limits), fitted.explain(CUBE, **limits), strict=True
            ):
                acquired = {c for step in narrative.steps for c in step.columns}
                assert cost == len(acquired) + 2 * bool(acquired & {"x0", "x1"})
    session = discounted.acquire(unavailable=["x2", "x3"], exactly=4)
    costs = [session.next_cost]
    while not session.done:
        session.observe(dict.fromkeys(session.next_columns, 1.0))
        costs.append(session.cost)
    assert costs == [3, 3, 4]


def test_a_function_is_never_in_a_file(discounted, tmp_path):
    with pytest.raises(ValueError, match=r"cannot be saved.*never code.*setup"):
        discounted.save(tmp_path / "m.suwr")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="never code"):
        discounted.explain(CUBE)[0].receipt()
    with pytest.raises(ValueError, match="never code"):
        discounted.acquire().to_json()
    with pytest.raises(ValueError, match=r"'checkpoint' .* must be None if 'costs' is a function"):
        SUWRClassifier(costs=draw_costs, **SMALL).fit(X, X[:, 0], checkpoint=tmp_path / "c")
    with pytest.raises(UnsupportedModelError, match="a function as 'costs'"):
        discounted.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match="made into forms"):
        ModelPolicy(discounted)
    with pytest.raises(ValueError, match="'costs' parameter of select must be None"):
        discounted.select(CUBE, costs=PRICES[:16])
    with pytest.raises(ValueError, match="'costs' parameter of SUWRExplainer"):
        SUWRExplainer(lambda rows: rows[:, 0], costs=draw_costs).fit(X)
    with pytest.raises(ValueError, match="must be None, a mapping or an array"):
        GDFSClassifier(costs=draw_costs).fit(X, X[:, 0])
