"""Comparison with the published AUROC."""

import pytest

from suwr_experiments.published_gap import n_failed, published_gap, verdict


def test_gap_of_the_published_auroc():
    assert published_gap("SUWR", "Syn4") == pytest.approx(0.8228 - 0.810)
    assert published_gap("Oracle", "Syn4") == pytest.approx(0.8228 - 0.818)


def test_failed_fits_are_counted():
    assert n_failed([0.0, 0.032, 0.034, 0.5], 0.013) == 2


def test_verdicts():
    # Mean 0.015, standard error 0.003.
    assert verdict([0.012, 0.018], 0.012) == "reached"
    assert verdict([0.012, 0.018], 0.0119) == "not reached"
    # One of two fits has failed.
    assert verdict([0.0, 0.035], 0.0149) == "not reached"
    assert verdict([0.01], 0.01) == "reached"
