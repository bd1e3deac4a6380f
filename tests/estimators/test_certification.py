"""Certified stopping: the guarantee, its stronger forms, and the certified estimator everywhere."""

import copy
import json
import pickle
import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import suwr
from helpers.receipts import sign
from suwr import (
    Acquisition,
    Explanation,
    SUWRClassifier,
    audit,
    verify,
    verify_certificate,
)
from suwr.cli import app
from suwr.estimators.certify import thresholds
from suwr.estimators.risks import Certificate, binomial_p_value, hoeffding_bentkus_p_value
from suwr.estimators.verify import poison_check
from suwr.exceptions import CertificationWarning, ModelFileError, SessionError

SMALL = {
    "max_epochs": 1,
    "training": {"hidden_size": 16, "n_layers": 1, "n_predictors": 2},
    "random_state": 0,
}


# The guarantee does not matter here, so that models may be certified on their training rows.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*calibration rows equal:suwr.exceptions.CertificationWarning"
)


@pytest.fixture(scope="module")
def rows(cancer, classifier):
    X, y = cancer
    return X[list(classifier.feature_names_in_)], y.to_numpy()


@pytest.fixture(scope="module")
def model(classifier):
    return classifier


@pytest.fixture(scope="module")
def certified(model, rows):
    return model.certify(rows[0], level=0.03)


@pytest.fixture(scope="module")
def budgeted(model):
    """The same policy with at most two steps."""
    changed = copy.copy(model)
    changed.max_steps = changed.max_steps_ = 2
    changed.policy_ = copy.copy(model.policy_)
    changed.policy_.max_steps = 2
    return changed


@pytest.fixture(scope="module")
def regression(diabetes, regressor):
    return regressor, *diabetes


def full_probability(model, X):
    return model.predict_masked(X, np.ones(X.shape, dtype=bool))


def test_certificate_describes_the_certified_policy(certified, model, rows):
    X, _ = rows
    c = certified.certificate_
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    losses = certified.predict(X) != full
    assert c.empirical_risk == pytest.approx(losses.mean())
    assert c.p_value == pytest.approx(binomial_p_value(losses, 0.03))
    assert c.p_value <= 0.05
    assert c.mean_cost == pytest.approx(certified.cost(X).mean())
    assert c.mean_cost < c.full_cost == 10
    assert (c.n_rows, c.risk, c.rule) == (len(X), "disagreement", "confidence")
    with pytest.raises(FrozenInstanceError):
        c.level = 0.5


def test_next_policy_of_the_family_fails_or_costs_as_much(certified, model, rows):
    X, _ = rows
    odds = np.exp(thresholds("confidence"))
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    place = int(np.searchsorted(odds, certified.certificate_.threshold))
    other, outcomes = copy.copy(model), []
    other.policy_ = copy.copy(model.policy_)
    for threshold in odds[place : place + 15]:
        other.policy_.stop_odds = float(threshold)
        losses = other.predict(X) != full
        outcomes.append((binomial_p_value(losses, 0.03) <= 0.05, other.cost(X).mean()))
    n_passed = [passed for passed, _ in outcomes].index(False)
    costs = [cost for _, cost in outcomes[:n_passed]]
    assert certified.certificate_.mean_cost == pytest.approx(min(costs))


def test_original_model_is_left_alone(model, rows):
    before = model.predict_proba(rows[0])
    for rule in ("confidence", "gain"):
        other = model.certify(rows[0], level=0.1, rule=rule)
        assert (other.select(rows[0]) != model.select(rows[0])).any()
    assert not hasattr(model, "certificate_")
    np.testing.assert_array_equal(model.predict_proba(rows[0]), before)


def test_hidden_cells_do_not_influence_a_certified_model(certified, rows):
    report = poison_check(certified, rows[0][:60], random_state=0)
    assert report.passed
    assert report.n_cells > 500


def test_acquisition_follows_the_certified_policy(certified, model, rows):
    X, _ = rows
    explanation = certified.explain(X[:25])
    assert [n.n_used for n in explanation] != [n.n_used for n in model.explain(X[:25])]
    for (_, row), narrative in zip(X[:25].iterrows(), explanation, strict=True):
        session = certified.acquire()
        while not session.done:
            session.observe({name: row[name] for name in session.next_columns})
        assert session.narrative(narrative.row) == narrative
    assert session.narrative().text().endswith(certified.certificate_.sentence)
    if len(session.known) < 10:
        assert session.go_on().narrative().certificate == ""


def test_text_and_records_have_the_sentence(certified, model, rows):
    explanation = certified.explain(rows[0][:3])
    sentence = certified.certificate_.sentence
    assert sentence == (
        "Certified on 569 rows: with probability 95 %, at most 3 % of new rows would be predicted "
        "otherwise if all features were revealed."
    )
    assert explanation[0].text().splitlines()[-1] == sentence
    assert Explanation.from_json(explanation.to_json()) == explanation
    assert Explanation.from_frame(explanation.to_frame()) == explanation
    assert sentence not in model.explain(rows[0][:3]).text()
    # The certificate is for greedy decisions.
    sampled = certified.explain(rows[0][:3], policy="sampled", random_state=0)
    assert sentence not in sampled.text()


@pytest.mark.parametrize("rule", ["confidence", "gain"])
def test_saved_model_is_the_same(rule, model, rows, tmp_path):
    certified = model.certify(rows[0], level=0.15, rule=rule)
    assert certified.certificate_.rule == rule
    certified.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    assert again.certificate_ == certified.certificate_
    np.testing.assert_array_equal(again.predict_proba(rows[0]), certified.predict_proba(rows[0]))
    np.testing.assert_array_equal(again.select(rows[0]), certified.select(rows[0]))
    again.save(tmp_path / "again.suwr")
    assert (tmp_path / "again.suwr").read_bytes() == (tmp_path / "m.suwr").read_bytes()


def test_command_line_shows_the_certificate(certified, rows, tmp_path):
    certified.save(tmp_path / "m.suwr")
    answers = "".join(f"{value}\n" for value in ["missing"] * 10) + "\n"
    words = ["ask", str(tmp_path / "m.suwr"), "--record", str(tmp_path / "r.json")]
    done = CliRunner().invoke(app, words, input=answers)
    assert done.exit_code == 0, done.output
    assert "with probability 95 %" in " ".join(done.output.split())
    assert json.loads((tmp_path / "r.json").read_text())["narratives"][0]["certificate"]


def test_changes_are_refused(certified, rows):
    with pytest.raises(ValueError, match="set_params would change a certified SUWRClassifier"):
        certified.set_params(max_steps=2)
    with pytest.raises(ValueError, match="fit would change a certified"):
        certified.fit(*rows)
    with pytest.raises(ValueError, match="certified already"):
        certified.certify(rows[0])
    with pytest.raises(ValueError, match="'sparsity_weight' parameter cannot be chosen"):
        certified.predict(rows[0], sparsity_weight=0.1)
    assert not hasattr(clone(certified), "certificate_")


@pytest.mark.parametrize(
    "change", ["weights", "classes", "encoder", "attribute", "odds", "certificate"]
)
def test_changed_models_are_detected(change, certified, rows, tmp_path):
    changed = copy.deepcopy(certified)
    changed.predict(rows[0][:3])
    if change == "weights":
        next(changed.policy_.network.parameters()).data.mul_(1.001)
    elif change == "classes":
        changed.classes_[:] = changed.classes_[::-1].copy()
    elif change == "encoder":
        changed.encoder_.codes.reverse()
    elif change == "attribute":
        changed.max_steps = 2
    elif change == "odds":
        changed.policy_.stop_odds = 0.5
    else:
        changed.certificate_ = Certificate.from_dict(
            certified.certificate_.to_dict() | {"digest": "0"}
        )
    for use in (changed.predict, changed.select, changed.explain):
        with pytest.raises(ValueError, match="changed after it was certified"):
            use(rows[0][:3])
    with pytest.raises(ValueError, match="changed after it was certified"):
        changed.save(tmp_path / "m.suwr")


def test_forged_certificates_are_refused(certified, model):
    from suwr.estimators.container import pack, unpack
    from suwr.estimators.files import from_bytes, to_bytes

    text, tensors = unpack(to_bytes(certified), "m")
    state = json.loads(text)
    assert state["format"] == 2
    assert json.loads(unpack(to_bytes(model), "m")[0])["format"] == 1
    for change in (
        {"level": 2.0}, {"threshold": 0.5}, {"digest": "00"}, {"level": "0.1"}, {"n_rows": 0},
        {"rule": "other"}, {"abstain": 1}, {"sparsity_weight": 0.1}, {"more": 1},
        {"class_kind": "true"}, {"class_kind": 1, "class_names": ["0", "1"]},
        {"class_kind": "other", "class_names": ["0", "1"]}, {"class_names": [0, 1]},
        {"needs_nothing": "no"}, {"empty_risk": "0"}, {"p_value": -0.1}, {"answered": 1.5},
        {"empirical_risk": 2.0}, {"mean_cost": -1.0}, {"level": 10**400}, {"outcomes": 1},
    ):  # fmt: skip
        forged = {**state, "certificate": state["certificate"] | change}
        with pytest.raises(ModelFileError):
            from_bytes(pack(json.dumps(forged), dict(tensors)))


def test_everything_is_revealed_if_nothing_else_passes(budgeted, rows, tmp_path):
    X, _ = rows
    with pytest.warns(CertificationWarning, match="At least 59 rows are needed; there are only 30"):
        certified = budgeted.certify(X[:30])
    c = certified.certificate_
    assert c.reveals_everything
    assert (c.empirical_risk, c.mean_cost) == (0.0, 10.0)
    # More steps than the original model may take.
    assert certified.select(X).all()
    full = full_probability(budgeted, X)
    np.testing.assert_array_equal(certified.predict(X), budgeted.classes_[full.argmax(axis=1)])
    assert "all features are revealed" in certified.explain(X[:1]).text()
    certified.save(tmp_path / "m.suwr")
    assert suwr.load(tmp_path / "m.suwr").select(X).all()


def test_error_and_loss_by_hand(model, rows):
    X, y = rows
    stopped = model.certify(X, y, risk="error", level=0.1)
    full = full_probability(model, X)
    wrong = (stopped.predict(X) != y) & (model.classes_[full.argmax(axis=1)] == y)
    assert stopped.certificate_.empirical_risk == pytest.approx(wrong.mean())

    stopped = model.certify(X, y, risk="loss", level=0.2)
    assert stopped.certificate_.rule == "gain"
    row, number = np.arange(len(y)), np.searchsorted(model.classes_, y)
    final = stopped.predict_masked(X, stopped.select(X))
    excess = np.log(full[row, number]) - np.log(final[row, number])
    losses = np.clip(excess / model.constant_loss_, 0, 1)
    assert stopped.certificate_.empirical_risk == pytest.approx(losses.mean(), abs=1e-6)
    assert stopped.certificate_.p_value == pytest.approx(
        hoeffding_bentkus_p_value(losses, 0.2), rel=1e-3
    )


def test_risk_functions(model, rows):
    X, _ = rows

    def distance(prediction, full, y):
        assert y is None
        return np.abs(prediction - full).sum(axis=1) / 2

    certified = model.certify(X, risk=distance, level=0.2)
    assert certified.certificate_.risk == "distance"
    assert "the expected risk (distance) of a new row is at most 20 %" in str(
        certified.certificate_
    )
    with pytest.raises(ValueError, match=r"must return one number in \[0, 1\] per row"):
        model.certify(X, risk=lambda prediction, full, y: 2 * np.ones(len(X)))
    with pytest.raises(ValueError, match="with all features revealed it is 1"):
        model.certify(X, risk=lambda prediction, full, y: np.ones(len(X)))


def test_guarantee_holds_in_every_group(model, rows):
    X, _ = rows
    groups = np.where(X.iloc[:, 0] > X.iloc[:, 0].median(), "large", "small")
    certified = model.certify(X, level=0.15, groups=groups)
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    losses = certified.predict(X) != full
    p_values = [binomial_p_value(losses[groups == g], 0.15) for g in ("large", "small")]
    assert certified.certificate_.p_value == pytest.approx(max(p_values))
    assert max(p_values) <= 0.05
    assert certified.certificate_.groups == ("large", "small")
    assert "in each group (large, small)" in certified.certificate_.sentence
    rare = np.where(np.arange(len(X)) < 5, "rare", "usual")
    with pytest.warns(CertificationWarning, match="there are only 5 of group rare"):
        assert model.certify(X, groups=rare).certificate_.reveals_everything


def by_class(certified, model, rows, level, classes):
    """P-values of the disagreements in each class."""
    full = model.classes_[full_probability(model, rows).argmax(axis=1)]
    losses = certified.predict(rows) != full
    classes = full if classes is None else classes
    return [binomial_p_value(losses[classes == label], level) for label in model.classes_]


@pytest.mark.parametrize("kind", ["true", "predicted"])
def test_guarantee_holds_in_every_class(kind, model, rows, tmp_path):
    X, y = rows
    labels = y if kind == "true" else None
    certified = model.certify(X, labels, level=0.06, per="class")
    c = certified.certificate_
    p_values = by_class(certified, model, X, 0.06, labels)
    assert c.p_value == pytest.approx(max(p_values))
    assert max(p_values) <= 0.05
    assert (c.n_rows, c.class_names, c.class_kind) == (569, ("0", "1"), kind)
    # A bound for all rows is met by a cheaper policy.
    assert c.mean_cost > model.certify(X, level=0.06).certificate_.mean_cost > 0
    which = "true class" if kind == "true" else "class that all features predict"
    assert c.sentence.endswith(f"if all features were revealed, in each {which} (0, 1).")
    assert certified.explain(X[:1])[0].text().endswith(c.sentence)
    certified.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    assert again.certificate_ == c
    receipt = certified.explain(X[:1])[0].receipt()
    assert receipt.certificate["class_names"] == ["0", "1"]
    assert suwr.verify(receipt, again)


def test_misses_of_the_class(model, rows):
    X, y = rows
    stopped = model.certify(X, y, risk="error", level=0.06, per="class")
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    wrong = (stopped.predict(X) != y) & (full == y)
    found = [binomial_p_value(wrong[y == label], 0.06) for label in (0, 1)]
    assert stopped.certificate_.p_value == pytest.approx(max(found))


def test_every_class_of_every_group(model, rows):
    X, y = rows
    groups = np.where(np.arange(len(X)) % 2, "odd", "even")
    certified = model.certify(X, y, level=0.1, per="class", groups=groups)
    p_values = [
        p
        for group in ("odd", "even")
        for p in by_class(certified, model, X[groups == group], 0.1, y[groups == group])
    ]
    assert certified.certificate_.p_value == pytest.approx(max(p_values))
    assert "in each true class (0, 1) of each group (even, odd)" in certified.certificate_.sentence


def test_a_class_with_few_rows(model, rows):
    X, y = rows
    # 4 % of the rows are of class 0.
    chosen = np.concatenate([np.flatnonzero(y == 0)[:14], np.flatnonzero(y == 1)])
    X, y = X.iloc[chosen], y[chosen]
    with pytest.warns(CertificationWarning, match="59 rows are needed; there are only 14 of class"):
        assert model.certify(X, y, per="class").certificate_.reveals_everything
    # 0.8 ** 14 = 0.044, so that there must be no miss among the 14 rows.
    certified = model.certify(X, y, level=0.2, per="class")
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    assert (certified.predict(X) == full)[y == 0].all()
    with pytest.warns(CertificationWarning, match="there are only 0 of class 0"):
        assert model.certify(X[y == 1], y[y == 1], per="class").certificate_.reveals_everything

    def no_risk(prediction, full, y):
        return np.zeros(len(prediction))

    with pytest.raises(ValueError, match="there are only 0 of class 0"):
        model.certify(X[y == 1], y[y == 1], risk=no_risk, per="class")


def test_guarantee_that_is_met_without_any_feature(model, rows, tmp_path):
    X, _ = rows
    full = full_probability(model, X).argmax(axis=1)
    start = model.predict_masked(X, np.zeros(X.shape, dtype=bool)).argmax(axis=1)
    empty = np.mean(start != full)
    assert empty == pytest.approx(0.4, abs=0.05)
    with pytest.warns(CertificationWarning, match="met without acquiring any feature"):
        certified = model.certify(X, level=0.48)
    c = certified.certificate_
    assert c.needs_nothing
    assert c.empty_risk == pytest.approx(empty)
    assert c.caution == (
        "This is met without acquiring any feature: the prediction at the start has a risk of "
        f"{100 * empty:.2g} % on these rows. A guarantee for each class (per='class') or for the "
        "loss (risk='loss') says more."
    )
    narrative = certified.explain(X[:1])[0]
    assert narrative.text().endswith(f"if all features were revealed. {c.caution}")
    assert narrative.receipt().certificate["needs_nothing"]
    certified.save(tmp_path / "m.suwr")
    assert suwr.load(tmp_path / "m.suwr").certificate_ == c
    # The risk of these rows is at most the level, which a test on them does not prove.
    level = empty + 0.001
    assert binomial_p_value(start != full, level) > 0.05
    with pytest.warns(CertificationWarning, match="met without acquiring any feature"):
        assert model.certify(X, level=level).certificate_.needs_nothing
    # Every row of one class is predicted otherwise.
    c = model.certify(X, level=0.48, per="class").certificate_
    assert (c.empty_risk, c.needs_nothing, c.caution) == (1.0, False, "")
    c = model.certify(X, level=0.3).certificate_
    assert (c.needs_nothing, c.caution) == (False, "")


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        ({"risk": "loss"}, "for a smaller level"),
        ({"risk": "distance"}, "for a smaller level"),
        ({"class_names": ("a", "b"), "class_kind": "true"}, "for a smaller level"),
        ({"classes": False, "tolerance": 2.0}, "(risk='loss') or for a smaller tolerance"),
    ],
)
def test_what_says_more(facts, advice):
    about = {"risk": "error", "empty_risk": 0.031, "needs_nothing": True} | facts
    risk = about.pop("risk")
    found = Certificate(risk, 0.05, 0.95, 540, 0.02, 0.01, 0.0, 10.0, "gain", 0.0, **about)
    assert "a risk of 3.1 % on these rows. A guarantee for " in found.caution
    assert found.caution.endswith(f"{advice} says more.")


def test_certificates_of_earlier_versions(certified):
    stored = certified.certificate_.to_dict()
    assert stored["needs_nothing"] is False
    for name in ("needs_nothing", "empty_risk", "outcomes"):
        del stored[name]
    found = Certificate.from_dict(stored)
    assert (found.needs_nothing, found.empty_risk, found.class_names) == (None, None, None)
    # Receipts of their models contain it as it was.
    assert found.to_dict() == stored


def half_distance(prediction, full, y):
    return 0.5 * np.abs(prediction - full).sum(axis=1)


CERTIFIED = {
    "disagreement": {"level": 0.03},
    "gain": {"level": 0.05, "rule": "gain"},
    "error in each class": {"level": 0.2, "risk": "error", "per": "class", "labels": True},
    "predicted classes": {"level": 0.3, "per": "class"},
    "loss": {"level": 0.2, "risk": "loss", "labels": True},
    "function": {"level": 0.2, "risk": half_distance},
    "groups": {"level": 0.2, "groups": np.arange(569) % 2},
    "steps": {"level": 0.2, "per": "steps"},
    "abstain": {"level": 0.2, "abstain": True},
}


@pytest.mark.parametrize("kind", CERTIFIED)
def test_certificates_are_computed_again_from_the_calibration_rows(
    kind, model, budgeted, rows, tmp_path
):
    X, y = rows
    options = dict(CERTIFIED[kind])
    labels = y if options.pop("labels", False) else None
    certified = (budgeted if kind == "abstain" else model).certify(X, labels, **options)
    c = certified.certificate_
    assert not c.reveals_everything
    certified.save(tmp_path / "m.suwr")
    given = {"groups": options.get("groups"), "risk": None}
    if kind == "function":
        with pytest.raises(ValueError, match="pass half_distance as 'risk'"):
            verify_certificate(certified, X)
        given["risk"] = half_distance
    for one in (certified, tmp_path / "m.suwr", str(tmp_path / "m.suwr")):
        assert str(verify_certificate(one, X, labels, **given)) == "verified"
    # Other rows, or the same ones in another order.
    assert not verify_certificate(certified, X[::-1], labels, **given)
    for change in (
        {"level": 0.0001}, {"n_rows": 10**6},
        {"p_value": 1e-9}, {"empirical_risk": c.empirical_risk / 2},
        {"mean_cost": c.mean_cost - 1}, {"answered": c.answered - 0.1}, {"steps": 2},
        {"groups": ("all",)}, {"outcomes": "0" * 64}, {"empty_risk": 0.9},
    ):  # fmt: skip
        forged = copy.copy(certified)
        forged.certificate_ = replace(c, **change)
        assert not verify_certificate(forged, X, labels, **given), change


def test_a_consistent_certificate_must_pass_its_test(certified, rows):
    """A level that is not met, with the p-value that the test has at this level."""
    X, c = rows[0], certified.certificate_
    losses = np.arange(len(X)) < round(c.empirical_risk * len(X))
    level = 0.9 * c.empirical_risk
    for change in (
        {"level": level, "p_value": binomial_p_value(losses, level)},
        {"confidence": 1 - c.p_value / 2},
    ):
        forged = copy.copy(certified)
        forged.certificate_ = replace(c, **change)
        assert "the test fails on these rows" in str(verify_certificate(forged, X))


def test_certificates_that_cannot_be_checked(certified, budgeted, model, rows):
    X, old = rows[0], copy.copy(certified)
    old.certificate_ = replace(certified.certificate_, outcomes=None)
    assert "cannot be checked" in str(verify_certificate(old, X))
    with pytest.raises(ValueError, match="has no certificate"):
        verify_certificate(model, X)
    with pytest.warns(CertificationWarning, match="At least 59"):
        everything = budgeted.certify(X[:30])
    assert verify_certificate(everything, X[:30])
    assert not verify_certificate(everything, X[:29])


def test_certificates_of_regressions_and_ranges_are_computed_again(regression, rows):
    model, X, y = regression
    for risk in ("disagreement", "error", "loss"):
        certified = model.certify(X, y, risk=risk, level=0.3, tolerance=60.0)
        assert verify_certificate(certified, X, y)
        other = np.roll(y, 1) if risk != "disagreement" else y
        assert bool(verify_certificate(certified, X, other)) == (risk == "disagreement")
    X, y = rows[0].iloc[:, :4], rows[1]
    ranged = SUWRClassifier(**SMALL, sparsity_weight=(0.005, 0.5)).fit(X[:200], y[:200])
    for rule in ("gain", "confidence"):
        assert verify_certificate(ranged.certify(X[200:], level=0.2, rule=rule), X[200:])


@pytest.fixture(scope="module")
def fitted_on_some(rows):
    """A model of the first 300 rows."""
    return SUWRClassifier(**SMALL).fit(rows[0][:300], rows[1][:300])


def warnings_of_rows(model, X):
    """Warnings of `certify` about the calibration rows."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.certify(X, level=0.6)
    messages = [str(w.message) for w in found if w.category is CertificationWarning]
    return [message for message in messages if "calibration rows" in message]


def test_calibration_rows_that_are_training_rows(fitted_on_some, rows, tmp_path):
    model, X = fitted_on_some, rows[0]
    for use in (X[:300], X[:300].to_numpy(), X[::-1]):
        (found,) = warnings_of_rows(model, use)
        known = f"300 of the {len(use)} calibration rows equal rows that the model was fitted on"
        assert found.startswith(known)
    assert warnings_of_rows(model, X[300:]) == []
    # Whatever the model was used for in between.
    audit(model, X[:20], training_rows=X[:20], n_probes=20, random_state=0)
    model.explain(X[:3])
    for used in (model, model.conformalize(X[:300], rows[1][:300])):
        assert len(warnings_of_rows(used, X[:300])) == 1
    # Neither files nor pickles tell which rows a model was fitted on.
    model.save(tmp_path / "m.suwr")
    for other in (suwr.load(tmp_path / "m.suwr"), pickle.loads(pickle.dumps(model))):
        assert warnings_of_rows(other, X[:300]) == []


def test_new_rows_of_few_values_equal_training_rows(rng):
    X = rng.randint(0, 3, size=(900, 3)).astype(float)
    model = SUWRClassifier(**SMALL).fit(X[:400], X[:400, 0] > 0)
    assert warnings_of_rows(model, X[400:]) == []


def test_one_row_repeated(fitted_on_some, rows):
    held_out = rows[0][300:]
    mostly = pd.concat([held_out[:1]] * 51 + [held_out[1:50]])
    (found,) = warnings_of_rows(fitted_on_some, mostly)
    assert found.startswith("51 of the 100 calibration rows are the same row")
    half = pd.concat([held_out[:1]] * 50 + [held_out[1:51]])
    assert warnings_of_rows(fitted_on_some, half) == []


def test_guarantee_holds_per_number_of_steps(model, rows):
    X, _ = rows
    certified = model.certify(X, level=0.15, per="steps")
    c = certified.certificate_
    order = np.random.RandomState(0).permutation(len(X))
    tested = np.sort(order[round(0.2 * len(X)) :])
    assert c.n_rows == len(tested)
    steps = certified.cost(X)[tested]
    full = model.classes_[full_probability(model, X).argmax(axis=1)]
    losses = (certified.predict(X) != full)[tested]
    found = [binomial_p_value(losses[steps <= t], 0.15) for t in range(c.steps, 11)]
    assert c.p_value == pytest.approx(max(found))
    assert max(found) <= 0.05
    assert f"for every t ≥ {c.steps}" in c.sentence


def test_abstention(budgeted, rows, tmp_path):
    X, _ = rows
    certified = budgeted.certify(X, level=0.2, abstain=True)
    answered = certified.answered(X)
    c = certified.certificate_
    assert answered.mean() == pytest.approx(c.answered)
    assert 0 < c.answered < 1
    full = budgeted.classes_[full_probability(budgeted, X).argmax(axis=1)]
    tested = np.sort(np.random.RandomState(0).permutation(len(X))[round(0.2 * len(X)) :])
    losses = (certified.predict(X) != full)[tested][answered[tested]]
    assert c.p_value == pytest.approx(binomial_p_value(losses, 0.2))
    endings = np.array([n.ended for n in certified.explain(X)])
    np.testing.assert_array_equal(endings == "abstained", ~answered)
    refused = certified.explain(X)[int(np.argmin(answered))]
    assert "Abstained: not certain enough" in refused.text()
    assert "of answered rows" in c.sentence
    row = X.iloc[int(np.argmin(answered))]
    session = certified.acquire()
    while not session.done:
        session.observe({name: row[name] for name in session.next_columns})
    assert session.narrative().ended == "abstained"
    assert budgeted.answered(X).all()


def test_regression_with_a_tolerance(regression):
    model, X, y = regression
    full = full_probability(model, X)
    certified = model.certify(X, level=0.2, tolerance=20.0)
    away = np.abs(certified.predict(X) - full) > 20
    assert certified.certificate_.empirical_risk == pytest.approx(away.mean())
    assert "differently by more than 20" in certified.certificate_.sentence
    certified = model.certify(X, y, risk="error", level=0.2, tolerance=60.0)
    wrong = (np.abs(certified.predict(X) - y) > 60) & (np.abs(full - y) <= 60)
    assert certified.certificate_.empirical_risk == pytest.approx(wrong.mean())
    certified = model.certify(X, y, risk="loss", level=0.3, tolerance=60.0)
    excess = (certified.predict(X) - y) ** 2 - (full - y) ** 2
    losses = np.clip(excess / 3600, 0, 1)
    assert certified.certificate_.empirical_risk == pytest.approx(losses.mean(), abs=1e-6)


def test_range_model_is_certified_at_one_weight(rows, tmp_path):
    X, y = rows[0].iloc[:, :4], rows[1]
    model = SUWRClassifier(**SMALL, sparsity_weight=(0.005, 0.5)).fit(X[:200], y[:200])
    X_cal = X[200:]
    certified = model.certify(X_cal, level=0.2)
    weight = certified.certificate_.sparsity_weight
    assert certified.certificate_.rule == "gain"
    assert 0.005 <= weight <= 0.5
    assert certified.sparsity_weight_ == weight
    certified.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    np.testing.assert_array_equal(again.select(X_cal), certified.select(X_cal))
    with pytest.raises(ValueError, match="certified for one policy"):
        again.cost(X_cal, mean_features=2)
    # Receipts and sessions of another λ are not those of the certified policy.
    receipt = json.loads(again.explain(X_cal)[0].receipt().to_json())
    assert verify(receipt, again)
    other = {"condition": receipt["condition"] / 2 + 1e-9}
    assert "position of λ" in str(verify(sign(receipt | other), again))
    session = json.loads(again.acquire().to_json())
    with pytest.raises(SessionError, match="'condition' is not that of the model"):
        Acquisition.from_json(json.dumps(session | other), again)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 0}, r"'level' parameter of certify must be a float in the range \(0, 1\)"),
        ({"confidence": 1.0}, "'confidence' parameter of certify"),
        ({"risk": "other"}, "'risk' parameter of certify must be one of 'disagreement'"),
        ({"per": "rows"}, "'per' parameter of certify"),
        ({"abstain": 1}, "'abstain' parameter of certify must be a bool"),
        ({"tolerance": 1.0}, "'tolerance' parameter of certify must be None for a classifier"),
        ({"risk": "error"}, "'y_cal' parameter of certify is required if risk='error'"),
        ({"y_cal": ["unknown"] * 569}, "must contain the classes of fit"),
        ({"groups": [1, 2]}, "inconsistent numbers of samples"),
        ({"groups": [None] * 569}, "a label for every row"),
        ({"rule": "other"}, "'rule' parameter of certify"),
    ],
)
def test_bad_arguments(arguments, message, model, rows):
    with pytest.raises(ValueError, match=message):
        model.certify(rows[0], **arguments)


def test_bad_arguments_of_a_regression(regression):
    model, X, _ = regression
    with pytest.raises(ValueError, match="'tolerance' parameter of certify must be a float"):
        model.certify(X)
    with pytest.raises(ValueError, match="'auto' or 'gain' for a regressor"):
        model.certify(X, tolerance=1.0, rule="confidence")
    with pytest.raises(ValueError, match="'per' parameter of certify must be None or 'steps' for"):
        model.certify(X, tolerance=1.0, per="class")
