"""Steps as visits, which cost something besides their units."""

from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import suwr
from suwr import Acquisition, Costs, Explanation, SUWRClassifier, SUWRRegressor
from suwr.cli import app
from suwr.deploy import ModelPolicy
from suwr.deploy.service import RequestError, Service
from suwr.estimators.selection import minimisation_report
from suwr.estimators.verify import Verifier, poison_check
from suwr.exact import FiniteProblem, solve
from suwr.exceptions import UnsupportedModelError

SMALL = {"max_epochs": 3, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
CUBE = np.array(list(product([0.0, 1.0], repeat=5)))
X = np.repeat(CUBE, 8, axis=0)
pytestmark = pytest.mark.filterwarnings(
    "ignore::suwr.exceptions.UninformativeModelWarning", "ignore::suwr.exceptions.StartWarning"
)


@pytest.fixture(scope="module")
def model():
    """Two units per visit of cost 3."""
    return SUWRClassifier(
        sparsity_weight=0.001, costs=Costs({"x1": 2.0}, of=2, visit=3.0),
        **SMALL | {"max_epochs": 20, "training": {"hidden_size": 32, "n_predictors": 2}},
    ).fit(X, X[:, 0])  # fmt: skip


def cost_of(narrative):
    """Brute force: one per unit, two for x1, three per step."""
    units = [unit for step in narrative.steps for unit in step.units]
    return len(units) + units.count("x1") + 3 * len(narrative.steps)


def test_visits_are_charged(model):
    for limits in ({}, {"max_cost": 6}, {"max_cost": 4}, {"exactly": 9}, {"known": ["x1"]}):
        costs, narratives = model.cost(CUBE, **limits), model.explain(CUBE, **limits)
        for cost, narrative in zip(costs, narratives, strict=True):
            assert cost == cost_of(narrative) <= limits.get("max_cost", np.inf)
            visits = len(narrative.steps)
            assert f" in {visits} visit{'s' * (visits != 1)}." in narrative.text()
        assert all(Verifier(model).verify([n.receipt() for n in narratives]))
        for copy in (
            Explanation.from_json(narratives.to_json()),
            Explanation.from_frame(narratives.to_frame()),
        ):
            assert copy == narratives
            assert copy[0].text() == narratives[0].text()
    assert model.select(CUBE).any()
    # A visit costs 3 and its cheapest unit 1.
    assert not model.select(CUBE, max_cost=3.9).any()
    assert (model.select(CUBE, exactly=4).sum(axis=1) == 1).all()
    # Five units in three visits: 6 + 9.
    assert model.units_.total_cost() == 15
    assert model.report_.all_features["cost"] == 15
    assert (model.cost(CUBE, exactly=15) == 15).all()
    with pytest.raises(ValueError, match="at most 15"):
        model.select(CUBE, exactly=16)
    # A second unit of a visit fits where a second visit would not.
    assert set(model.cost(CUBE, exactly=5, available=[True, False, True, True, True])) == {5}


def test_sessions_request_one_visit_at_a_time(model):
    for row in CUBE[::5]:
        session = model.acquire(max_cost=11)
        while not session.done:
            before, requested = session.cost, session.next_cost
            assert requested == 3 + len(session.next_units) + ("x1" in session.next_units)
            session.observe({name: row[int(name[1])] for name in session.next_columns})
            assert session.cost == before + requested
        assert session.narrative(0) == model.explain([row], max_cost=11)[0]
        assert " visit" in session.narrative().text()
        assert Acquisition.from_json(session.to_json(), model).cost == session.cost


def test_poison_files_and_reports(model, tmp_path):
    assert poison_check(model, CUBE, random_state=0).passed
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr")
    assert loaded.costs == model.costs
    np.testing.assert_array_equal(loaded.cost(CUBE, max_cost=9), model.cost(CUBE, max_cost=9))
    report = minimisation_report(model, CUBE)
    assert report.n_rows == len(CUBE)
    certified = model.certify(X, X[:, 0], level=0.4)
    assert certified.certificate_.full_cost == 15
    with pytest.raises(UnsupportedModelError, match="costs of visits can be used in Python only"):
        model.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match="made into forms"):
        ModelPolicy(model)


def test_the_command_line_announces_a_visit(model, tmp_path):
    model.save(tmp_path / "m.suwr")
    first = model.acquire().next_units
    words = ["ask", str(tmp_path / "m.suwr"), "--record", str(tmp_path / "answers.json")]
    done = CliRunner().invoke(app, words, input="1\n" * 10)
    assert f"One visit: {' and '.join(first)}." in done.output
    assert " visits." in done.output or " in 1 visit." in done.output


def test_the_service_charges_visits(model):
    service = Service(model)
    for most in (3.9, 4.0, 6.0):
        (replay,) = service.replay([service.read_next(f'{{"max_cost": {most}}}'.encode())])
        assert replay.next_unit == model.acquire(max_cost=most).next_unit
    with pytest.raises(RequestError, match="costs"):
        service.read_next(b'{"costs": {"x0": 1}}')


@pytest.mark.slow
def test_single_units_cost_their_visit():
    """With one unit per step, a visit is a part of the cost of every unit.

    The terms of y have the variances 4 and 0.25: at λ = 0.05, x1 is worth a cost of 1, not of 10.
    """
    y = CUBE[:, 0] * 4 + CUBE[:, 1]
    for visit_cost, optimum in ((0.0, 2.0), (9.0, 10.0)):
        problem = FiniteProblem(CUBE.astype(int), y, costs=[1.0 + visit_cost] * 5)
        assert solve(problem, 0.05).cost == pytest.approx(optimum)
    settings = {**SMALL, "max_epochs": 20, "training": {"hidden_size": 32, "n_predictors": 2}}
    reg = SUWRRegressor(costs=Costs(visit=9.0), sparsity_weight=0.05, **settings).fit(
        X, np.repeat(y, 8)
    )
    np.testing.assert_array_equal(reg.cost(CUBE), 10)
    np.testing.assert_array_equal(reg.select(CUBE), [[True] + 4 * [False]] * len(CUBE))


@pytest.mark.slow
def test_several_units_per_visit_save_visits():
    rng = np.random.RandomState(0)
    table = (rng.rand(600, 6) < 0.5).astype(float)
    y = table[:, :3].sum(axis=1)
    visits = {}
    for k in (1, 3):
        settings = {
            **SMALL,
            "max_epochs": 12,
            "training": {"hidden_size": 32, "n_predictors": 2},
            "sparsity_weight": 0.01,
        }
        reg = SUWRRegressor(costs=Costs(of=k, visit=4.0), **settings).fit(table, y)
        steps = [len(narrative.steps) for narrative in reg.explain(table[:200])]
        visits[k] = np.mean(steps)
        assert reg.score(table, y) > 0.9
    assert visits[3] <= 2 < visits[1] - 1
