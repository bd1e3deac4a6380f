"""Predictive gaps are significant if and only if the selection leaks."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.auditing import audit, audit_masks
from suwr.auditing.gaps import as_classes, fit_predict
from suwr_experiments.zoo import SPECIMENS


@pytest.fixture(scope="module")
def binary_data():
    """Two fair binary features, and a label that equals the second one with 5 % noise."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"coin": rng.integers(2, size=1500), "sex": rng.integers(2, size=1500)})
    return X, X["sex"].to_numpy() ^ (rng.random(1500) < 0.05)


def test_a_leak_of_one_bit_is_measured_as_one_bit(binary_data):
    X, y = binary_data
    masks = np.stack([X["sex"] == 1, np.zeros(1500, dtype=bool)], axis=1)
    report = audit_masks(X, masks, y, random_state=0)
    sex = report.gaps.features[0]
    assert sex.target == "sex"
    assert sex.leak == pytest.approx(1.0, abs=0.05)
    assert sex.low <= sex.leak <= sex.high
    # 1 bit minus the entropy of the 5 % noise
    assert report.gaps.label.leak == pytest.approx(1 - 0.286, abs=0.06)
    assert report.gaps.label.mask_alone == pytest.approx(1 - 0.286, abs=0.06)
    assert abs(report.gaps.label.revealed) < 0.02
    assert report.gaps.label.encode_meter == pytest.approx(report.gaps.label.leak, abs=0.1)
    assert report.gaps.label.stripe_x() < report.gaps.label.revealed
    assert report.verdict == "leaks"
    assert report.evidence == "gaps"
    assert "bits about `sex`, which is not among the selected features" in report.summary()
    assert "could not be queried" in report.summary()


def test_information_in_revealed_values_is_no_leak(binary_data):
    X, y = binary_data
    masks = np.stack([np.zeros(1500, dtype=bool), np.ones(1500, dtype=bool)], axis=1)
    report = audit_masks(X, masks, y, random_state=0)
    label = report.gaps.label
    assert label.revealed == pytest.approx(1 - 0.286, abs=0.06)
    assert abs(label.leak) < 0.01
    assert report.verdict == "no leak found"
    assert [g.target for g in report.gaps.features] == ["coin"]


@pytest.mark.parametrize(
    "name", ["decision tree", "constant mask", "random masks", "leak in the order only"]
)
def test_leak_free_selectors_have_no_significant_gap(name):
    selector, X, y = SPECIMENS[name].make(3)
    report = audit(selector, X[:400], y[:400], random_state=3, n_probes=500, n_draws=4000)
    assert report.gaps.significant == []
    assert report.cautions == []


@pytest.mark.parametrize("name", ["five blocks", "decision tree"])
def test_a_difficult_prediction_task_is_no_leak(name):
    # The model of permuted masks has the harder task; here it has to learn up to 2.2 bits.
    selector, X, y = SPECIMENS[name].make(7)
    assert not audit_masks(X, selector(X), y, random_state=7).leaks


def test_leaked_features_are_named():
    selector, X, y = SPECIMENS["mask encodes the label"].make(0)
    report = audit(selector, X[:600], y[:600], random_state=0, n_probes=600)
    assert [g.target for g in report.gaps.features if g.significant] in (["x3", "x4"], ["x4", "x3"])
    assert report.gaps.label.low > 0.3
    assert report.ranking[0][0] in ("x3", "x4")


def test_labels_of_all_types(binary_data):
    X, y = binary_data
    masks = np.stack([X["sex"] == 1, np.zeros(1500, dtype=bool)], axis=1)
    strings = np.where(y, "ill", "well")
    numbers = y + np.random.default_rng(0).normal(scale=0.1, size=1500)
    for labels in (strings, strings.astype(object), numbers, pd.Series(strings)):
        report = audit_masks(X, masks, labels, random_state=0)
        assert report.gaps.label.leak > 0.4


def test_predictions_of_degenerate_training_data():
    rng = np.random.default_rng(0)
    train = rng.normal(size=(100, 2))
    constant = fit_predict(train, np.zeros(100, dtype=int), train, 3, None, 0)
    assert (constant > 0).all()
    np.testing.assert_allclose(constant.sum(axis=1), 1)
    uninformed = fit_predict(
        np.full((100, 2), np.nan), rng.integers(2, size=100), train, 2, None, 0
    )
    assert len(np.unique(uninformed, axis=0)) == 1


def test_masks_must_match_the_rows(binary_data):
    with pytest.raises(ValueError, match="one mask per row"):
        audit_masks(binary_data[0], np.ones((3, 2), dtype=bool))


@settings(max_examples=50)
@given(arrays(int, st.integers(2, 200), elements=st.integers(0, 50)))
def test_as_classes_gives_few_classes_and_keeps_equal_values_together(values):
    classes = as_classes(values)
    assert classes.max() < 8
    for value in np.unique(values):
        assert len(np.unique(classes[values == value])) == 1
