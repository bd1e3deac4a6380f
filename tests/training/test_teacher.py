"""The teacher: what it is fitted to, what it is asked, and what training makes of its answers."""

from dataclasses import replace
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import suwr.estimators.base as base
from suwr import SUWRClassifier, SUWRRegressor, load
from suwr.data.units import resolve_units
from suwr.estimators.container import FileCheckpoint
from suwr.exceptions import ModelOutputError, UninformativeModelWarning
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, SquaredError
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.training import teacher
from suwr.training.data import Folds, Rows
from suwr.training.teacher import Lesson, TeacherRows, fit_teacher, recombine, stack_members

BRIEF = {"max_epochs": 2, "training": {"hidden_size": 8, "n_layers": 1}, "random_state": 0}


def make_inputs(n_columns, groups=None):
    units = resolve_units(groups, None, [f"x{i}" for i in range(n_columns)])
    return MaskedInputs.build(units, np.arange(n_columns), "cpu")


def numeric_rows(n=30, n_columns=3, seed=0, weight=None):
    """Rows with independent columns, and the sum of the columns as target."""
    values = torch.from_numpy(np.random.RandomState(seed).randn(n, n_columns)).float()
    weight = torch.ones(n) if weight is None else torch.as_tensor(weight, dtype=torch.float32)
    return Rows(values, values.sum(dim=1, keepdim=True), weight)


def regression_teacher(estimator, rows, n_copies=2, inputs=None):
    """A lesson by a regressor that is given."""
    values = rows.values.numpy()

    def asked(sources):
        drawn = np.take_along_axis(values, sources, axis=0)
        targets = rows.targets.numpy()[:, 0]
        return TeacherRows(values, drawn, targets, lambda found, labels: found.reshape(-1, 1))

    inputs = inputs or make_inputs(values.shape[1])
    return fit_teacher(rows, inputs, SquaredError(), n_copies, 0, (estimator, asked))


# ---- recombination ----


@given(
    n_rows=st.integers(1, 30),
    units=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    n=st.integers(0, 70),
    seed=st.integers(0, 1000),
)
def test_cells_are_those_of_the_row_or_of_one_near_neighbour(n_rows, units, n, seed):
    rng = np.random.RandomState(seed)
    values, unit_of = rng.randn(n_rows, 2).round(1), np.array(units)
    sources = recombine(values, unit_of, n, rng)
    assert sources.shape == (n, len(units))
    for number, row in enumerate(sources):
        own = number % n_rows
        others = set(row.tolist()) - {own}
        assert len(others) <= 1
        for unit in set(units):
            assert len(set(row[unit_of == unit])) == 1
        distance = ((values - values[own]) ** 2).sum(axis=1)
        reach = np.sort(distance)[min(teacher.N_NEIGHBOURS, n_rows - 1)]
        assert all(distance[other] <= reach + 1e-9 for other in others)


def test_about_half_of_the_units_are_exchanged():
    values = np.random.RandomState(0).randn(100, 4)
    sources = recombine(values, np.arange(4), 1000, np.random.RandomState(1))
    own = np.arange(1000) % 100
    assert (sources != own[:, None]).mean() == pytest.approx(0.5, abs=0.05)


def test_neighbours_are_searched_among_some_rows_of_a_large_table(monkeypatch):
    monkeypatch.setattr(teacher, "MAX_CANDIDATES", 20)
    values = np.random.RandomState(0).randn(100, 2)
    sources = recombine(values, np.arange(2), 2000, np.random.RandomState(1))
    own = np.repeat((np.arange(2000) % 100)[:, None], 2, axis=1)
    assert len(np.unique(sources[sources != own])) <= 20


@pytest.mark.parametrize("groups", [None, {"pair": [0, 2]}])
def test_rows_of_a_lesson_recombine_the_training_rows_in_their_order(groups):
    rows, inputs = numeric_rows(), make_inputs(3, groups)
    lesson = regression_teacher(LinearRegression(), rows, n_copies=3, inputs=inputs)
    values = lesson.rows.values.reshape(4, 30, 3)
    assert torch.equal(values[0], rows.values)
    source = [
        [[int((rows.values[:, j] == v).nonzero()[0]) for j, v in enumerate(row)] for row in copy]
        for copy in values[1:]
    ]
    for copy in source:
        for own, row in enumerate(copy):
            assert len(set(row) - {own}) <= 1
            assert groups is None or row[0] == row[2]
    # A linear model of the sum is exact, also on rows that have no label.
    torch.testing.assert_close(lesson.rows.targets, lesson.rows.values.sum(1, True))


def test_costs_and_weights_of_rows_are_those_of_their_recombinations():
    rows = replace(numeric_rows(weight=np.linspace(0.5, 1.5, 30)), costs=torch.rand(30, 3))
    lesson = regression_teacher(LinearRegression(), rows)
    assert torch.equal(lesson.rows.weight.reshape(3, 30), rows.weight.expand(3, 30))
    assert torch.equal(lesson.rows.costs.reshape(3, 30, 3), rows.costs.expand(3, 30, 3))


# ---- cross-fitting ----


class Memory(RegressorMixin, BaseEstimator):
    """Knows the targets of the rows that it was fitted to, and answers -7 for all others."""

    def fit(self, X, y):
        self.known_ = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.known_.get(row.tobytes(), -7.0) for row in X])


def test_predictions_out_of_fold_are_by_models_that_were_not_fitted_to_the_row():
    rows = numeric_rows()
    lesson = regression_teacher(Memory(), rows)
    assert (lesson.held_out == -7).all()
    # Targets are the mean over five folds, of which four have seen the row.
    torch.testing.assert_close(lesson.rows.targets[:30], (4 * rows.targets - 7) / 5)


def test_targets_of_drawn_rows_are_what_the_teacher_answers():
    """A new combination of cells is known to none of its models."""
    rows = numeric_rows()
    lesson = regression_teacher(Memory(), rows, n_copies=1)
    drawn, targets = lesson.rows.values[30:], lesson.rows.targets[30:]
    new = ~(drawn.unsqueeze(1) == rows.values).all(dim=2).any(dim=1)
    assert new.sum() > 10
    assert (targets[new] == -7).all()
    assert (targets[~new] != -7).all()


class Mean(RegressorMixin, BaseEstimator):
    """The weighted mean of the targets."""

    def fit(self, X, y, sample_weight=None):
        self.mean_, self.weighted_ = np.average(y, weights=sample_weight), sample_weight is not None
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_ if self.weighted_ else self.mean_ + 100)


@pytest.mark.parametrize("pipeline", [False, True])
def test_sample_weights_are_passed_to_the_teacher(pipeline):
    rows = numeric_rows(weight=np.linspace(0.1, 1.9, 30))
    estimator = make_pipeline(StandardScaler(), Mean()) if pipeline else Mean()
    found = regression_teacher(estimator, rows).held_out[:, 0]
    assert len(found.unique()) == 5
    for mean in found.unique():
        others = found != mean
        weight, targets = rows.weight[others], rows.targets[others, 0]
        expected = (weight * targets).sum() / weight.sum()
        assert mean.item() == pytest.approx(expected.item(), abs=1e-5)


def test_equal_weights_are_not_passed():
    assert (regression_teacher(Mean(), numeric_rows()).held_out > 50).all()


class Broken(Mean):
    def predict(self, X):
        return np.full(len(X), np.nan)


def test_predictions_that_are_not_finite_raise():
    with pytest.raises(ModelOutputError, match="Broken are not finite"):
        regression_teacher(Broken(), numeric_rows())
    X = np.random.RandomState(0).randn(40, 3)
    model = SUWRRegressor(teacher=Broken(), **BRIEF)
    with pytest.raises(ModelOutputError, match="Broken are not finite"):
        model.fit(X, X[:, 0])
    assert not hasattr(model, "policy_")


def class_rows(classes, n_classes, seed=0):
    X = np.random.RandomState(seed).randn(len(classes), 3) + np.array(classes)[:, None]
    targets = torch.nn.functional.one_hot(torch.as_tensor(classes), n_classes).float()
    return Rows(torch.from_numpy(X).float(), targets, torch.ones(len(classes)))


def test_a_class_that_is_missing_in_a_fold_has_probability_zero_there(monkeypatch):
    """Also if all remaining rows of a fold are of one class."""
    monkeypatch.setattr(teacher, "stack_members", lambda *args: {"logistic": LogisticRegression()})
    monkeypatch.setattr(teacher, "_greedy_weights", lambda *args: {"logistic": 1.0})
    for classes in ([0] * 14 + [1] * 15 + [2], [0] * 29 + [1]):
        rows = class_rows(classes, 3)
        lesson = fit_teacher(rows, make_inputs(3), CrossEntropy(3), 2, 0)
        for found in (lesson.held_out, lesson.rows.targets):
            torch.testing.assert_close(found.sum(dim=1), torch.ones(len(found)))
            assert (found >= 0).all()
        # The model that predicts the last row out of fold does not know its class.
        assert lesson.held_out[29, classes[29]] == 0
        assert lesson.rows.targets[29, classes[29]] > 0


# ---- the stack ----


class Column(RegressorMixin, BaseEstimator):
    """Predicts the value of a column."""

    def __init__(self, column):
        self.column = column

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return X[:, self.column]


@pytest.mark.parametrize(
    ("mix", "expected"),
    [((1.0, 0.0, 0.0), [0]), ((0.6, 0.4, 0.0), [0, 1]), ((0.5, 0.25, 0.25), [0, 1, 2])],
)
def test_weights_of_the_members_are_the_best_on_a_grid(monkeypatch, mix, expected):
    rows = numeric_rows(60)
    rows = replace(rows, targets=rows.values @ torch.tensor(mix).unsqueeze(1))
    members = {f"column {j}": Column(j) for j in range(3)}
    monkeypatch.setattr(teacher, "stack_members", lambda *args: members)
    lesson = fit_teacher(rows, make_inputs(3), SquaredError(), 1, 0)
    assert sum(lesson.weights.values()) == pytest.approx(1.0)

    def objective(weights):
        return float((rows.values @ torch.tensor(weights) - rows.targets[:, 0]).square().mean())

    steps = teacher.SELECTION_STEPS
    grid = [
        (a / steps, b / steps) for a, b in product(range(steps + 1), repeat=2) if a + b <= steps
    ]
    best = min(objective([a, b, 1 - a - b]) for a, b in grid)
    found = objective([lesson.weights.get(f"column {j}", 0.0) for j in range(3)])
    assert found <= best + 1e-3
    assert set(lesson.weights) == {f"column {j}" for j in expected}
    assert [lesson.weights[f"column {j}"] for j in expected] == pytest.approx(
        [mix[j] for j in expected], abs=0.04
    )
    combined = sum(w * rows.values[:, int(name[-1])] for name, w in lesson.weights.items())
    torch.testing.assert_close(lesson.held_out[:, 0], combined)


def test_members_that_know_less_than_a_constant_have_no_weight(monkeypatch):
    rows = numeric_rows(60)
    noise = torch.randn(60, 1, generator=torch.Generator().manual_seed(0))
    rows = replace(rows, targets=3 + 0.01 * noise)
    monkeypatch.setattr(teacher, "stack_members", lambda *args: {"column": Column(0)})
    lesson = fit_teacher(rows, make_inputs(3), SquaredError(), 1, 0)
    assert lesson.weights == {"constant": 1.0}
    torch.testing.assert_close(
        lesson.held_out, rows.targets.mean().expand(60, 1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("n_classes", [None, 2, 40])
@pytest.mark.parametrize("n_rows", [30, 6_000])
def test_members_of_the_stack(n_classes, n_rows):
    members = stack_members(n_classes, n_rows, 4, 0)
    assert ("forest" in members) is (n_rows < teacher.MAX_FOREST_ROWS)
    question = "predict" if n_classes is None else "predict_proba"
    assert all(hasattr(member, question) for member in members.values())


def test_the_stack_learns_from_rows_with_missing_values():
    rows = numeric_rows(40)
    values = rows.values.clone()
    values[::7, 1] = torch.nan
    lesson = fit_teacher(replace(rows, values=values), make_inputs(3), SquaredError(), 1, 0)
    assert lesson.held_out.isfinite().all()
    assert lesson.rows.targets.isfinite().all()
    correlation = np.corrcoef(lesson.held_out[:, 0], rows.targets[:, 0])[0, 1]
    assert correlation > 0.6


# ---- the lesson ----


@pytest.fixture
def lesson_parts():
    """A random network, what it predicts, and the arguments of `Lesson.folds`."""
    rows, inputs, loss = numeric_rows(40), make_inputs(3), SquaredError()
    torch.manual_seed(0)
    network = SeparateNetwork(Architecture(3, 3, 3, 1, 8, 1, 4), n_folds=4).eval()
    folds = Folds(rows, torch.Generator().manual_seed(0), 4)
    own = torch.zeros(40, 1)
    with torch.no_grad():
        own[folds.indices] = network.cross_fitted(
            inputs.reveal_all(rows.values[folds.indices]), loss
        )
    drawn = torch.cat([rows.values, rows.values.roll(1, 0), rows.values.roll(2, 0)])
    return rows, drawn, own, network, (network, inputs, loss, folds)


def make_lesson(rows, drawn, held_out, **changes):
    taught = Rows(drawn, torch.full((len(drawn), 1), 2.0), rows.weight.repeat(3))
    validation = taught[slice(80, 120)]
    return Lesson(taught, validation, rows.targets, held_out, {"member": 1.0}, **changes)


def test_recombinations_are_in_the_fold_of_their_row(lesson_parts):
    rows, drawn, own, _, arguments = lesson_parts
    folds, lesson = arguments[-1], make_lesson(rows, drawn, own)
    found = lesson.folds(*arguments)
    assert found.size == 3 * folds.size == 30
    for fold, all_rows in zip(folds.indices, found.indices, strict=True):
        assert sorted(all_rows.tolist()) == sorted(
            int(row) + 40 * copy for row in fold for copy in range(3)
        )
    assert torch.equal(found.rows.values, drawn)
    assert torch.equal(folds.rows.targets, rows.targets)
    # The networks have changed when later phases ask again.
    assert lesson.folds(*arguments) is found


@pytest.mark.parametrize("share", teacher.SHARES)
def test_the_share_minimises_the_loss_out_of_fold(lesson_parts, share):
    rows, drawn, own, network, arguments = lesson_parts
    held_out = own + torch.randn(40, 1, generator=torch.Generator().manual_seed(1))
    rows = replace(rows, targets=own.lerp(held_out, share))
    lesson = make_lesson(rows, drawn, held_out)
    folds = lesson.folds(*arguments)
    targets = folds.rows.targets
    losses = [float((found - rows.targets).square().mean()) for found in (held_out, own)]
    assert folds.report[:3].tolist() == pytest.approx([share, *losses], rel=1e-4, abs=1e-8)
    # All predictors answer for rows of the lesson, and labels count half where there are any.
    with torch.no_grad():
        inputs = arguments[1]
        mixed = (
            network.predict(inputs.reveal_all(drawn))
            .mean(dim=0)
            .lerp(torch.full((120, 1), 2.0), share)
        )
    torch.testing.assert_close(targets[40:], mixed[40:])
    torch.testing.assert_close(targets[:40], (mixed[:40] + rows.targets) / 2)


def test_weights_of_rows_count_in_the_choice_of_the_share(lesson_parts):
    rows, drawn, own, _, (network, inputs, loss, folds) = lesson_parts
    first = (torch.arange(40) < 20).unsqueeze(1)
    # The teacher is right on the first rows, the predictors on the last.
    rows = replace(rows, targets=torch.where(first, own + 1, own))
    for weights, share in (((1.9, 0.1), 1.0), ((0.1, 1.9), 0.0)):
        weight = torch.where(first[:, 0], *weights)
        folds.rows = replace(rows, weight=weight)
        lesson = make_lesson(rows, drawn, own + 1)
        assert lesson.folds(network, inputs, loss, folds).report[0] == share


def test_a_teacher_that_is_fixed_is_not_mixed(lesson_parts):
    rows, drawn, own, _, arguments = lesson_parts
    rows = replace(rows, targets=own)
    lesson = make_lesson(rows, drawn, own + 1, fixed=True)
    found = lesson.folds(*arguments)
    targets = found.rows.targets
    assert found.report[0] == 1.0
    assert (targets[40:] == 2.0).all()
    torch.testing.assert_close(targets[:40], (2.0 + own) / 2)


# ---- fits ----


def table(n=60, n_columns=3, seed=0):
    X = np.random.RandomState(seed).randn(n, n_columns)
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "yes", "no")


class Watched(ClassifierMixin, BaseEstimator):
    """Logistic regression that remembers what it is fitted to and asked."""

    seen = ()

    def fit(self, X, y, **options):
        self.model_ = LogisticRegression().fit(X, y, **options)
        self.classes_ = self.model_.classes_
        Watched.seen += ((X, y),)
        return self

    def predict_proba(self, X):
        Watched.seen += ((X, None),)
        return self.model_.predict_proba(X)


def test_a_teacher_of_the_user_sees_the_rows_of_the_user(monkeypatch):
    monkeypatch.setattr(Watched, "seen", ())
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60) + 1000)
    model = SUWRClassifier(teacher=Watched(), **BRIEF).fit(frame, y)
    phases = [record["phase"] for record in model.history_]
    # Two epochs on the labels, then those of the lesson.
    assert phases == ["pretraining"] * 7 + ["actor"] * 2 + ["fine-tuning"]
    # 54 training rows; the six rows held out for validation are not among them.
    fitted = [(rows, labels) for rows, labels in Watched.seen if labels is not None]
    assert len(fitted) == 5
    known = {tuple(row) for rows, _ in fitted for row in rows.to_numpy()}
    assert len(known) == 54
    labels = dict(zip(map(tuple, X), y, strict=True))
    for rows, own in fitted:
        assert list(rows.columns) == ["a", "b", "c"]
        assert [labels[tuple(row)] for row in rows.to_numpy()] == own.tolist()
    for rows, own in Watched.seen:
        assert isinstance(rows, pd.DataFrame)
        if own is None:
            for j in range(3):
                assert set(rows.iloc[:, j]) <= {row[j] for row in known}


def test_a_logistic_regression_teaches_a_classifier():
    X, y = table(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SUWRClassifier(
        teacher=LogisticRegression(), max_epochs=5, training={"hidden_size": 16}, random_state=0
    ).fit(frame, y)
    assert model.score(frame, y) > 0.85
    assert model.select(frame)[:, 0].mean() > 0.8


def test_targets_of_a_regression_teacher_are_in_the_units_of_the_user():
    X = np.random.RandomState(0).randn(120, 3)
    y = 1000 + 50 * X[:, 0]
    model = SUWRRegressor(
        teacher=LinearRegression(), max_epochs=5, training={"hidden_size": 16}, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.7


def test_a_taught_fit_on_a_screened_table():
    X, y = table(80, 30)
    model = SUWRClassifier(teacher=LogisticRegression(), **BRIEF).fit(X, y)
    assert 0 < model.selectable_units_.sum() < 30
    assert not model.select(X)[:, ~model.selectable_units_].any()


def test_targets_that_are_a_teachers_need_no_teacher():
    X, y = table()
    probability = LogisticRegression().fit(X, y).predict_proba(X)
    model = SUWRClassifier(teacher="targets", **BRIEF)
    plan = model._plan(model._prepare(X, y, None), torch.Generator(), X)
    assert plan.task.lesson is None
    assert plan.task.settings.label_weight == 1.0
    plain = SUWRClassifier(teacher=None, **BRIEF)
    weaker, n_epochs = plan.task.settings.weight_decay, plan.task.settings.pretrain_epochs
    plan = plain._plan(plain._prepare(X, y, None), torch.Generator(), X)
    assert plan.task.settings.weight_decay > weaker
    phases = [record["phase"] for record in model.fit(X, probability).history_]
    assert phases.count("pretraining") == n_epochs


@pytest.fixture
def taught(monkeypatch):
    """Whether a stack was fitted, with a quick member."""
    found = []

    def recorded(*args):
        found.append(fit_teacher(*args))
        return found[-1]

    monkeypatch.setattr(base, "fit_teacher", recorded)
    monkeypatch.setattr(teacher, "stack_members", lambda *args: {"logistic": LogisticRegression()})
    return found


@pytest.mark.parametrize(
    ("n", "params", "expected"),
    [
        (60, {}, True),
        (30, {}, False),
        (60, {"max_epochs": 19}, False),
        (60, {"sparsity_weight": (0.01, 0.1)}, False),
        (60, {"teacher": None}, False),
        (60, {"trainer": "lookahead"}, False),
        (60, {"trainer": "reinforce"}, False),
    ],
)
def test_auto_teaches_the_actor_by_a_stack(taught, n, params, expected):
    X, y = table(n)
    SUWRClassifier(**{**BRIEF, "max_epochs": 20, **params}).fit(X, y)
    assert len(taught) == expected


@pytest.mark.parametrize(
    "params", [{"loss": "absolute_error"}, {"loss": "quantile", "quantile": 0.2}]
)
def test_losses_that_have_no_expected_target_have_no_stack(taught, params):
    X = np.random.RandomState(0).randn(60, 3)
    SUWRRegressor(**params, **BRIEF | {"max_epochs": 20}).fit(X, X[:, 0])
    assert taught == []


@pytest.fixture
def resumed_everywhere(tmp_path, monkeypatch):
    """Check that a fit that is interrupted after any epoch continues as if it were not."""
    write, written, stop = FileCheckpoint.write, [], []

    def writing(self, phase, state):
        write(self, phase, state)
        written.append((phase, {name: tensor.clone() for name, tensor in state.items()}))
        if [len(written)] == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(FileCheckpoint, "write", writing)

    def check(fit, epochs):
        model = fit(tmp_path / "whole")
        states = list(written)
        assert [phase for phase, _ in states] == epochs
        for last in range(1, len(states)):
            written.clear()
            stop[:] = [last]
            with pytest.raises(KeyboardInterrupt):
                fit(tmp_path / "interrupted")
            written.clear()
            stop.clear()
            resumed = fit(tmp_path / "interrupted")
            assert resumed.history_ == model.history_, last
            for (_, expected), (_, found) in zip(states[last:], written, strict=True):
                assert found.keys() == expected.keys()
                for name, tensor in expected.items():
                    assert torch.equal(found[name], tensor), (last, name)
            final = model.policy_.network.state_dict()
            for name, tensor in resumed.policy_.network.state_dict().items():
                assert torch.equal(tensor, final[name]), (last, name)

    return check


@pytest.mark.parametrize("trained", ["classes", pytest.param("values", marks=pytest.mark.slow)])
def test_an_interrupted_fit_with_a_teacher_resumes_to_the_same_model(
    resumed_everywhere, monkeypatch, trained
):
    """In each of the four phases, and between them."""
    monkeypatch.setattr("suwr.training.predictor.MIN_UPDATES", 0)
    X, y = table()
    kind, estimator = SUWRClassifier, LogisticRegression()
    if trained == "values":
        kind, estimator, y = SUWRRegressor, LinearRegression(), X[:, 0] + X[:, 1] ** 2
    training = BRIEF["training"] | {"pretrain_fraction": 1.0, "finetune_fraction": 1.0}

    def fit(path):
        model = kind(teacher=estimator, **BRIEF | {"training": training})
        return model.fit(X, y, checkpoint=path)

    resumed_everywhere(fit, [0, 0, 1, 1, 2, 2, 3, 3])


@pytest.mark.slow
def test_targets_of_masked_predictors_survive_an_interruption(
    resumed_everywhere, monkeypatch, taught
):
    """They follow from predictors that later phases change."""

    def misled(*args):
        lesson = fit_teacher(*args)
        taught.append(replace(lesson, held_out=1 - lesson.labels))
        return taught[-1]

    monkeypatch.setattr(base, "fit_teacher", misled)
    monkeypatch.setattr(base, "MIN_TAUGHT_EPOCHS", 1)
    X, y = table()
    training = BRIEF["training"] | {"pretrain_fraction": 1.0, "finetune_fraction": 1.0}

    def fit(path):
        model = SUWRClassifier(teacher="auto", **BRIEF | {"training": training})
        return model.fit(X, y, checkpoint=path)

    resumed_everywhere(fit, [0, 0, 1, 1, 2, 2, 3, 3])
    assert taught[0]._folds.report[0] == 0.0


@pytest.mark.parametrize(
    "kind", [SUWRClassifier, pytest.param(SUWRRegressor, marks=pytest.mark.slow)]
)
def test_noise_selects_nothing(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.integers(0, 2, 100)
    with pytest.warns(UninformativeModelWarning):
        model = kind(teacher="auto", training={"hidden_size": 16}, random_state=0).fit(X, y)
    assert model.select(X).sum() == 0


def test_a_fitted_model_holds_nothing_of_its_teacher(tmp_path, monkeypatch):
    X, y = table()
    model = SUWRClassifier(teacher=Watched(), **BRIEF).fit(X, y)

    def unable(self, X):
        raise AssertionError("A decision asked the teacher.")

    monkeypatch.setattr(Watched, "predict_proba", unable)
    model.save(tmp_path / "model.suwr")
    loaded = load(tmp_path / "model.suwr")
    assert not isinstance(loaded.teacher, BaseEstimator)
    for other in (model, loaded):
        np.testing.assert_array_equal(other.select(X), model.select(X))
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    held = {type(value).__name__ for name, value in vars(model).items() if name != "teacher"}
    assert held.isdisjoint({"Watched", "Lesson", "TeacherRows"})


def test_hidden_cells_do_not_influence_a_taught_model():
    X, y = table()
    model = SUWRClassifier(teacher=LogisticRegression(), sparsity_weight=0.1, **BRIEF).fit(X, y)
    selected = model.select(X)
    assert not selected.all()
    for poison in (1e30, -5.0):
        poisoned = np.where(selected, X, poison)
        np.testing.assert_array_equal(model.select(poisoned), selected)
        np.testing.assert_array_equal(model.predict_proba(poisoned), model.predict_proba(X))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"teacher": "labels"}, "'teacher' parameter .* must be 'auto', 'targets', None"),
        ({"teacher": LinearRegression()}, "an estimator with fit and predict_proba"),
        ({"teacher": LogisticRegression(), "trainer": "reinforce"}, "trainer='reinforce'"),
    ],
)
def test_teachers_that_cannot_teach_are_refused(given, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(**BRIEF, **given).fit(X, y)
