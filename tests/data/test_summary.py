"""Summaries of numeric training columns."""

import numpy as np
import pytest

from suwr.data.encode import (
    MAX_SUMMARIES,
    MAX_VALUES,
    N_QUANTILES,
    ColumnCode,
    ColumnSummary,
    TableEncoder,
    number_code,
)


def test_quantiles_are_training_values(rng):
    present = rng.randn(57)
    summary = ColumnSummary.of(present)
    assert set(summary.quantiles) <= set(present)
    assert (summary.low, summary.high) == (present.min(), present.max())
    assert summary.values is None
    assert ColumnSummary.of(np.array([])) is None


def test_distinct_values_of_discrete_columns():
    summary = ColumnSummary.of(np.repeat(np.arange(MAX_VALUES), 3).astype(float))
    assert summary.values == tuple(range(MAX_VALUES))
    assert ColumnSummary.of(np.arange(MAX_VALUES + 1.0)).values is None


def test_far_outside():
    summary = ColumnSummary.of(np.arange(18.0, 80.0))
    assert not summary.is_far(79)
    assert not summary.is_far(100)
    assert summary.is_far(200)
    assert summary.is_far(-50)
    assert ColumnSummary.of(np.array([3.0])).is_far(3.1)
    assert ColumnSummary.of(np.array([-1e308, 1e308])).is_far(0.0) is False
    without = ColumnCode(center=50.0, scale=10.0)
    assert not without.is_far(140)
    assert without.is_far(160)


def test_files(rng):
    code = number_code(rng.randn(40))
    encoder = TableEncoder(["a"], [code])
    assert TableEncoder.from_dict(encoder.to_dict()).codes == [code]
    stored = encoder.to_dict()
    del stored["codes"][0]["summary"]
    assert TableEncoder.from_dict(stored).codes[0].summary is None
    many = TableEncoder([str(i) for i in range(MAX_SUMMARIES + 1)], [code] * (MAX_SUMMARIES + 1))
    assert all(c["summary"] is None for c in many.to_dict()["codes"])


@pytest.mark.parametrize(
    "stored",
    [
        {"quantiles": [0.0] * (N_QUANTILES - 1), "values": None},
        {"quantiles": [float("nan")] * N_QUANTILES, "values": None},
        {"quantiles": list(range(N_QUANTILES, 0, -1)), "values": None},
        {"quantiles": [0.0] * N_QUANTILES, "values": [2.0, 1.0]},
        {"quantiles": [0.0] * N_QUANTILES, "values": []},
        {"quantiles": [0.0] * N_QUANTILES, "values": list(range(MAX_VALUES + 1))},
    ],
)
def test_invalid_summaries_are_refused(stored):
    with pytest.raises(ValueError, match="of a column"):
        ColumnSummary.from_dict(stored)
