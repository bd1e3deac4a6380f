"""The auditor on data in which columns determine each other."""

import numpy as np
import pytest

from suwr.auditing import audit
from suwr_experiments.dependent_zoo import DEPENDENT, UNDETECTED

LEAKY = [name for name, s in DEPENDENT.items() if s.leaks]
CLEAN = [name for name, s in DEPENDENT.items() if not s.leaks]


@pytest.mark.parametrize("name", CLEAN)
def test_values_that_follow_from_revealed_ones_may_be_read(name):
    selector, X, y = DEPENDENT[name].make(3)
    report = audit(selector, X, y, random_state=3, gaps=False)
    assert report.verdict == "no leak found"
    assert report.witness is None
    assert report.share_determined > 0
    report.summary()


@pytest.mark.parametrize("name", LEAKY)
def test_leaks_are_found_beside_dependent_columns(name):
    selector, X, y = DEPENDENT[name].make(3)
    report = audit(selector, X, y, random_state=3, gaps=False)
    assert report.verdict in ("leaks", "leaks if columns vary independently")
    assert report.witness is not None
    assert report.dependent
    report.summary()


@pytest.mark.parametrize("name", UNDETECTED)
def test_undetected_dependence_is_no_proof(name):
    selector, X, y = UNDETECTED[name].make(3)
    report = audit(selector, X, y, random_state=3)
    assert report.verdict == "leaks if columns vary independently"
    assert not report.leaks
    assert report.assumed_independent == ["x5"]
    assert "Proof" not in report.summary()


@pytest.mark.parametrize("name", CLEAN)
def test_a_false_claim_of_full_support_is_the_responsibility_of_the_caller(name):
    selector, X, y = DEPENDENT[name].make(3)
    report = audit(selector, X, y, random_state=3, gaps=False, support="product")
    assert report.leaks
    assert "By support='product', such rows are possible" in report.summary()


def test_specimens_are_reproducible():
    for specimen in (DEPENDENT | UNDETECTED).values():
        (_, first, _), (_, second, _) = specimen.make(5), specimen.make(5)
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second))
