"""The report as text and as JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.auditing import audit
from suwr.auditing.report import detectable_rate, rate_interval
from suwr_experiments.zoo import SPECIMENS


@pytest.fixture(scope="module")
def leaky_report():
    selector, X, y = SPECIMENS["mask encodes the label"].make(0)
    return audit(selector, X[:500], y[:500], random_state=0, support="product")


def test_summary_of_a_leak(leaky_report):
    text = leaky_report.summary()
    assert text == str(leaky_report)
    for part in ("LEAKS", "Proof", "product support", "uniform probes", "bits", "EVAL-X", "calls"):
        assert part in text


def test_summary_without_a_leak():
    selector, X, y = SPECIMENS["decision tree"].make(0)
    text = audit(selector, X, y, random_state=0, gaps=False).summary()
    assert "NO LEAK FOUND" in text
    assert "would have been detected with 95 % probability" in text


def test_json_round_trip(leaky_report):
    parsed = json.loads(leaky_report.to_json())
    assert parsed["verdict"] == "leaks"
    assert parsed["witness"]["mask"] == leaky_report.witness.mask.tolist()
    assert parsed["probes"]["rate_interval"][0] <= parsed["probes"]["rate"]
    assert parsed["gaps"]["label"]["leak"] == leaky_report.gaps.label.leak
    assert json.loads(leaky_report.to_json(indent=None)) == parsed


def test_witness_table_brackets_hidden_values(leaky_report):
    header, first, second, *_ = leaky_report.witness.table().splitlines()
    assert "reveals" in header
    assert "[" in first
    assert "[" in second
    changed = leaky_report.witness.changed[0]
    assert changed in header


@given(st.integers(1, 10**5))
def test_detectable_rate_is_missed_with_probability_5_percent(n):
    rate = detectable_rate(n)
    assert (1 - rate) ** n == pytest.approx(0.05, rel=1e-6)


@given(st.integers(0, 200), st.integers(1, 200))
def test_intervals_contain_the_rate(hits, n):
    hits = min(hits, n)
    low, high = rate_interval(hits, n)
    assert 0 <= low <= hits / n <= high <= 1


def test_without_probes_any_rate_is_possible():
    assert detectable_rate(0) == 1.0
    assert rate_interval(0, 0) == (0.0, 1.0)


def test_progress_is_shown_if_verbose(capsys):
    X = np.random.default_rng(0).normal(size=(120, 3))
    audit(lambda X: np.inf > X, X, random_state=0, verbose=True)
    assert "Querying the selector" in capsys.readouterr().err
    audit(lambda X: np.inf > X, X, random_state=0, verbose=False)
    assert capsys.readouterr().err == ""
