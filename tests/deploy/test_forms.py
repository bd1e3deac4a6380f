"""Forms follow their policy: exactly on finite problems, with measured regret elsewhere."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from helpers.models import randomize
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import Costs, SUWRClassifier, SUWRRegressor
from suwr.data.encode import ColumnCode, number_code
from suwr.deploy import ModelPolicy, Regret, make_form, measure_regret
from suwr.deploy.forms import State, walk_rows
from suwr.exact import FiniteProblem, solve


class RulePolicy:
    """A policy given by a function of the answers: the next column, or a prediction."""

    def __init__(self, rule, codes, classes=("no", "yes")):
        self.rule, self.codes, self.classes = rule, codes, classes
        self.units = [(name, (name,)) for name in codes]
        self.start, self.max_steps, self.resolution = (), len(codes), 0.25

    def decide(self, answers):
        return [self._state(dict(known)) for known in answers]

    def _state(self, known):
        found = self.rule(known)
        if isinstance(found, str):
            return State((list(self.codes).index(found),), (0.5, 0.5))
        return State((), found)


def exact_policy(solution, names):
    """Return the optimal policy of a finite problem with the columns of integers."""

    def rule(known):
        rows = solution.problem.X
        matching = [
            row for row in rows
            if all(row[names.index(name)] == value for name, value in known.items())
        ]  # fmt: skip
        for node in solution.tree.walk(matching[0]):
            if len(node.revealed) == len(known):
                break
        assert node.is_leaf or {names[j] for j in node.revealed} == set(known)
        if node.is_leaf:
            mask = [name in known for name in names]
            return tuple(np.ravel(solution.predict_masked(matching[:1], [mask])).tolist())
        return names[node.reveal_next[0]]

    codes = {
        name: number_code(np.asarray(solution.problem.X[:, i], dtype=float))
        for i, name in enumerate(names)
    }
    return RulePolicy(rule, codes, classes=tuple(solution.classes_.tolist()))


def test_splits_are_where_the_decision_changes():
    values = np.linspace(0, 100, 2003) + 0.013

    def rule(known):
        if "a" not in known:
            return "a"
        if known["a"] <= 37.2:
            return (0.9, 0.1)
        if known["a"] <= 81.0 and "b" not in known:
            return "b"
        return (0.2, 0.8) if known.get("b", 1.0) > 0.5 else (0.7, 0.3)

    codes = {"a": number_code(values), "b": ColumnCode(categories=(False, True))}
    form = make_form(RulePolicy(rule, codes))
    bounds = [branch.answer.high for branch in form.pages[0].branches]
    # Quantiles are 5 apart, and 32 numbers between two of them are tried.
    assert bounds[:2] == pytest.approx([37.2, 81.0], abs=5 / 32)
    assert bounds[2] is None
    assert form.n_questions == 2
    assert form.walk({"a": 10.0}.get).page.prediction == (0.9, 0.1)
    walk = form.walk({"a": 50.0, "b": False}.get)
    assert walk.columns == ("a", "b")
    assert walk.page.prediction == (0.7, 0.3)
    assert form.walk({"a": 99.0}.get).columns == ("a",)
    assert form.pages[0].branches[0].answer.text.startswith("at most 37")


def test_integers_are_split_between_integers():
    code = number_code(np.arange(100.0))
    form = make_form(
        RulePolicy(
            lambda known: "age" if not known else ((1, 0) if known["age"] < 41 else (0, 1)),
            {"age": code},
        )
    )
    low, high = (branch.answer for branch in form.pages[0].branches)
    assert low.high == high.low == math.floor(low.high) + 0.5
    assert (low.text, high.text) == ("at most 40", "at least 41")


def test_missing_and_other_answers_have_pages_of_their_own():
    code = ColumnCode(categories=("a", "b"), has_missing=True)

    def rule(known):
        if not known:
            return "c"
        value = known["c"]
        return (1.0, 0.0) if value is None else (0.0, 1.0) if value == "a" else (0.4, 0.6)

    form = make_form(RulePolicy(rule, {"c": code}))
    assert [b.answer.text for b in form.pages[0].branches] == [
        "a", "b", "another value", "not available"]  # fmt: skip
    assert form.walk({"c": None}.get).page.prediction == (1.0, 0.0)
    assert form.walk({"c": "unheard-of"}.get).page.prediction == (0.4, 0.6)


def test_value_without_a_page_ends_the_form():
    code = number_code(np.arange(50.0))
    form = make_form(RulePolicy(lambda known: (1.0, 0.0) if known else "x", {"x": code}))
    walk = form.walk({"x": None}.get)
    assert walk.columns == ("x",)
    assert walk.page is form.pages[0]


def test_number_of_pages_is_limited_and_likely_pages_come_first():
    codes = {name: number_code(np.arange(4.0)) for name in "abcd"}

    def rule(known):
        return "abcd"[len(known)] if len(known) < 4 else (0.5, 0.5)

    whole = make_form(RulePolicy(rule, codes), max_pages=1000)
    assert whole.n_questions == 1 + 4 + 16 + 64
    small = make_form(RulePolicy(rule, codes), max_pages=7)
    assert small.n_questions == 7
    assert sum(p.share for p in small.pages if p.column is None) == pytest.approx(1.0)
    assert not all(p.complete for p in small.pages if p.column is None)
    with pytest.raises(ValueError, match="'max_pages' parameter of make_form"):
        make_form(RulePolicy(rule, codes), max_pages=0)


def objective(problem, form, names, weight):
    """Loss + λ cost of a form with the best predictor for its masks, by enumeration."""
    states, total = {}, 0.0
    for row in range(len(problem.X)):
        x = dict(zip(names, problem.X[row], strict=True))
        asked = form.walk(x.get).columns
        key = tuple(sorted((name, x[name]) for name in asked))
        states.setdefault(key, []).append(row)
        total += weight * len(asked) * problem.p[row]
    for rows in states.values():
        p = problem.p[rows]
        label = problem.label_distribution[rows].toarray()
        mean = (p[:, None] * label).sum(axis=0) / p.sum()
        total += p.sum() * -(mean * np.log(np.maximum(mean, 1e-300))).sum()
    return total


@pytest.fixture(scope="module")
def problem():
    X = np.array(list(itertools.product([0, 1], repeat=4)))
    y = np.where(X[:, 0] == 1, X[:, 1], X[:, 2])
    return FiniteProblem(X, np.array(["no", "yes"])[y])


@pytest.mark.parametrize("weight", [0.02, 0.1, 0.3])
def test_form_of_the_optimal_policy_has_no_regret(problem, weight):
    solution = solve(problem, weight)
    names = list("abcd")
    form = make_form(exact_policy(solution, names), max_pages=100)
    assert objective(problem, form, names, weight) == pytest.approx(solution.objective)


def test_fewer_pages_have_regret_to_the_exact_optimum(problem):
    weight, names = 0.02, list("abcd")
    solution = solve(problem, weight)
    policy = exact_policy(solution, names)
    objectives = [
        objective(problem, make_form(policy, max_pages=n), names, weight) for n in (1, 2, 3)
    ]
    assert objectives[0] > objectives[1] > objectives[2]
    assert objectives[2] == pytest.approx(solution.objective)


@pytest.fixture(scope="module")
def binary_model(problem):
    """A model with random weights on the finite problem."""
    X = pd.DataFrame(np.tile(problem.X, (10, 1)), columns=list("abcd"))
    y = np.where(X["a"] == 1, X["b"], X["c"])
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, random_state=0).fit(X, y)
    randomize(model, lambda: len({tuple(m) for m in model.select(X[:16])}) > 2)
    return model, X[:16], y[:16]


def test_form_of_a_model_is_the_policy_on_a_finite_problem(binary_model, problem):
    model, X, y = binary_model
    form = make_form(ModelPolicy(model), max_pages=100)
    regret = measure_regret(form, model, X, y)
    assert regret.disagreement == 0
    assert regret.regret == pytest.approx(0, abs=1e-9)
    assert regret.form_cost == regret.policy_cost == model.cost(X).mean()
    for number, narrative in enumerate(model.explain(X)):
        walk = form.walk(X.iloc[number].get)
        assert walk.columns == tuple(c for step in narrative.steps for c in step.columns)
        assert walk.page.prediction == pytest.approx(narrative.prediction)
    # No form is better than the best policy.
    weight = model.sparsity_weight_
    best = solve(problem, weight).objective
    assert objective(problem, form, list("abcd"), weight) >= best - 1e-9


@pytest.fixture(scope="module")
def mixed_form():
    """A model of every type of column, with a group and two units per step."""
    X, y = mixed_table(200)
    model = SUWRClassifier(
        groups={"where": ["code", "city"]},
        costs=Costs(of=2),
        max_epochs=1,
        training={"hidden_size": 8},
        max_steps=2,
        random_state=0,
    ).fit(X, y)
    randomize(model, lambda: len(np.unique(model.cost(X))) > 1)
    return model, X, y, make_form(ModelPolicy(model), max_pages=60)


def test_regret_on_rows(mixed_form):
    model, X, y, form = mixed_form
    regret = measure_regret(form, model, X, y)
    losses = -np.log([w.page.prediction[list(model.classes_).index(label)] for w, label in zip(
        walk_rows(form, model, model._read(X)), y, strict=True)])  # fmt: skip
    assert regret.form_loss == pytest.approx(losses.mean())
    probabilities = model.predict_proba(X)[np.arange(200), (y == model.classes_[1]).astype(int)]
    assert regret.policy_loss == pytest.approx(-np.log(probabilities).mean(), rel=1e-5)
    assert regret.policy_cost == pytest.approx(model.cost(X).mean())
    difference = regret.form_loss - regret.policy_loss
    difference += model.sparsity_weight_ * (regret.form_cost - regret.policy_cost)
    assert regret.regret == pytest.approx(difference)
    coarse = measure_regret(make_form(ModelPolicy(model), max_pages=1), model, X)
    assert coarse.regret is None
    assert coarse.disagreement >= regret.disagreement
    with pytest.raises(ValueError, match="Got 'other'"):
        measure_regret(form, model, X, ["other"] * 200)


def test_form_reads_only_what_it_asks_for(mixed_form):
    model, X, _, form = mixed_form
    expected = walk_rows(form, model, model._read(X))
    mask = np.array([[name in walk.columns for name in X.columns] for walk in expected])
    assert not mask.all(axis=1).any()
    for seed in range(3):
        poisoned = pd.DataFrame(poisoned_cells(X, mask, OBJECTS, seed), dtype=object)
        assert walk_rows(form, model, model._read(poisoned)) == expected


def test_values_of_a_regression_are_divided():
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(300, 3), columns=list("abc"))
    model = SUWRRegressor(max_epochs=1, training={"hidden_size": 8}, random_state=0).fit(
        X, 100 * X["a"]
    )
    randomize(model, lambda: np.ptp(model.predict(X)) > 50 and model.cost(X).mean() > 1)
    form = make_form(ModelPolicy(model), max_pages=40)
    regret = measure_regret(form, model, X, 100 * X["a"])
    assert regret.is_regression
    assert 0 < regret.disagreement < np.std(model.predict(X))
    assert "root mean square" in str(regret)
    assert "regret" in str(regret)


def test_regret_as_text():
    text = str(Regret(10, 0.1, 2.0, 1.5, 0.5, 0.4, 0.15, 0.02))
    assert text == (
        "10 rows: another prediction than the policy for 10.0 %, mean cost 2 instead of 1.5, "
        "loss 0.5 instead of 0.4; regret 0.15 ± 0.02 (standard error)"
    )
