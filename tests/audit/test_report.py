"""The report says what was found, in words and in JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.audit import audit
from suwr.audit._report import detectable_rate, rate_interval
from suwr_experiments.zoo import SPECIMENS


@pytest.fixture(scope="module")
def caught():
    selector, X, y = SPECIMENS["mask encodes the label"].make(0)
    return audit(selector, X[:500], y[:500], random_state=0)


def test_summary_tells_all(caught):
    text = caught.summary()
    assert text == str(caught)
    for part in ("LEAKS", "Proof", "product support", "blind probes", "bits", "EVAL-X", "calls"):
        assert part in text


def test_summary_without_a_leak():
    selector, X, y = SPECIMENS["decision tree"].make(0)
    text = audit(selector, X, y, random_state=0, gaps=False).summary()
    assert "NO LEAK FOUND" in text
    assert "would have been found with 95 % probability" in text


def test_json_is_json(caught):
    told = json.loads(caught.to_json())
    assert told["verdict"] == "leaks"
    assert told["witness"]["mask"] == caught.witness.mask.tolist()
    assert told["probes"]["rate_interval"][0] <= told["probes"]["rate"]
    assert told["gaps"]["label"]["leak"] == caught.gaps.label.leak
    assert json.loads(caught.to_json(indent=None)) == told


def test_witness_table_marks_hidden_values(caught):
    header, first, second, *_ = caught.witness.table().splitlines()
    assert "reveals" in header
    assert "[" in first
    assert "[" in second
    changed = caught.witness.changed[0]
    assert changed in header


@given(st.integers(1, 10**5))
def test_detectable_rate_is_what_it_says(n):
    rate = detectable_rate(n)
    assert (1 - rate) ** n == pytest.approx(0.05, rel=1e-6)


@given(st.integers(0, 200), st.integers(1, 200))
def test_intervals_hold_the_rate(hits, n):
    hits = min(hits, n)
    low, high = rate_interval(hits, n)
    assert 0 <= low <= hits / n <= high <= 1


def test_no_probes_no_promise():
    assert detectable_rate(0) == 1.0
    assert rate_interval(0, 0) == (0.0, 1.0)


def test_progress_is_shown_when_asked(capsys):
    X = np.random.default_rng(0).normal(size=(120, 3))
    audit(lambda X: np.inf > X, X, random_state=0, verbose=True)
    assert "Querying the selector" in capsys.readouterr().err
    audit(lambda X: np.inf > X, X, random_state=0, verbose=False)
    assert capsys.readouterr().err == ""
