"""The auditor is right on every selector with known ground truth."""

import numpy as np
import pytest

from suwr.auditing import audit
from suwr.selector import as_selector
from suwr_experiments.zoo import SPECIMENS, Specimen, register

LEAKY = [name for name, s in SPECIMENS.items() if s.leaks]
CLEAN = [name for name, s in SPECIMENS.items() if not s.leaks]


def reverify(selector, witness):
    """Verify a witness independently of the auditor, one row at a time."""
    first, second = (as_selector(selector).select(row) for row in split(witness.rows))
    np.testing.assert_array_equal(first[0], witness.mask)
    np.testing.assert_array_equal(second[0], witness.mask_other)
    assert (witness.x[witness.mask] == witness.x_other[witness.mask]).all()
    assert (witness.mask != witness.mask_other).any()


def split(rows):
    return rows[:1], rows[1:]


def test_zoo_has_both_kinds():
    assert len(LEAKY) >= 8
    assert len(CLEAN) >= 6
    assert len(SPECIMENS) >= 12


@pytest.mark.parametrize("name", LEAKY)
def test_leaks_are_found(name):
    selector, X, y = SPECIMENS[name].make(11)
    # The columns of all specimens vary independently.
    report = audit(selector, X, y, random_state=11, gaps=False, support="product")
    assert report.verdict == "leaks"
    assert report.stochastic == SPECIMENS[name].stochastic
    assert report.witness is not None
    w = report.witness
    assert w.changed
    assert not set(w.changed) & set(w.revealed)
    if not report.stochastic:
        assert report.evidence == "proof"
        reverify(selector, w)
    else:
        # Both are frequencies in 4,000 draws.
        p, q = w.probability, w.probability_other
        assert abs(p - q) > 2 * np.sqrt((p * (1 - p) + q * (1 - q)) / 4000)
    report.summary()
    report.to_json()


@pytest.mark.parametrize("name", CLEAN)
def test_leak_free_selectors_pass(name):
    selector, X, y = SPECIMENS[name].make(12)
    report = audit(selector, X, y, random_state=12, gaps=False)
    assert not report.leaks
    assert report.witness is None
    claims = getattr(selector, "leak_free_by_construction", False)
    assert report.verdict == ("leak-free by construction" if claims else "no leak found")
    report.summary()
    report.to_json()


@pytest.mark.parametrize("name", ["leak on 0.5 % of rows (tail)", "leak on 0.5 % of rows (leaf)"])
def test_leaks_on_one_row_in_200_are_found(name):
    found = 0
    for seed in range(40):
        selector, X, y = SPECIMENS[name].make(seed)
        report = audit(selector, X, y, random_state=seed, gaps=False)
        found += report.leaks_if_independent
    assert found >= 39


def test_directed_probes_find_rare_leaks(monkeypatch):
    monkeypatch.setattr("suwr.auditing.proofs._N_SWEEPS", 0)
    for seed in range(5):
        selector, X, y = SPECIMENS["leak on four hidden values"].make(seed)
        report = audit(selector, X, y, random_state=seed, gaps=False)
        assert report.leaks_if_independent
        assert report.n_uniform == 0


def test_false_alarm_rate():
    # Repeated testing without correction would exceed the nominal rate of 20 % by far.
    selector, X, _ = SPECIMENS["random masks"].make(0)
    alarms = sum(
        audit(
            selector, X[:200, :5], random_state=seed, gaps=False, n_draws=4000,
            false_alarm_rate=0.2, support="product",
        ).leaks
        for seed in range(60)
    )  # fmt: skip
    assert alarms <= 20


def test_register():
    @register("for this test", leaks=False)
    def make(seed):
        return (lambda X: np.inf > X), np.zeros((5, 2)), np.zeros(5)

    specimen = SPECIMENS.pop("for this test")
    assert isinstance(specimen, Specimen)
    assert specimen.make is make
