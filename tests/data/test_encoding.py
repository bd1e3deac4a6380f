import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.data.encode import BOUND, MAX_CATEGORIES, ColumnCode, TableEncoder
from suwr.data.frame import Table


def table(*columns):
    arrays = [np.array(c, dtype=float if isinstance(c[0], float) else object) for c in columns]
    return Table(arrays, len(arrays[0]))


def test_numbers_are_centred_scaled_and_bounded():
    encoder = TableEncoder.fit(table([float(i) for i in range(101)]), ["a"])
    code = encoder.codes[0]
    assert code.center == 50
    assert code.scale == pytest.approx(50 / 1.349)
    out = encoder.encode(table([50.0, 1e300, -1e300]))[:, 0]
    np.testing.assert_allclose(out, [0, BOUND, -BOUND])


@pytest.mark.parametrize(("joint", "n_bins"), [(False, 0), (False, 3), (True, 3)])
@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=6))
def test_extreme_numbers_are_encoded_as_bounded_numbers(joint, n_bins, values):
    columns = table(values, values[::-1])
    encoder = TableEncoder.fit(columns, ["a", "b"], joint=joint, n_bins=n_bins)
    assert all(code.has_valid_bins for code in encoder.codes)
    ends = [*values, 1.7e308, -1.7e308, 5e-324]
    out = encoder.encode(table(ends, ends))
    assert (np.abs(out) <= BOUND).all()
    assert all(np.isfinite([c.center, c.scale]).all() and c.scale > 0 for c in encoder.codes)


def test_bins_encode_the_position_of_a_number():
    values = [0.0, 1.0, 2.0, 4.0, np.nan]
    encoder = TableEncoder.fit(table(values, [0.0, 1.0] * 2 + [0.0]), ["a", "b"], n_bins=8)
    # A column with two values is linear anyway.
    assert [code.n_bins for code in encoder.codes] == [3, 0]
    assert encoder.column_of.tolist() == [0] * 5 + [1]
    assert encoder.pieces.tolist() == [False, True, True, True, False, False]
    new = [-1.0, 0.5, 3.0, 9.0, np.nan]
    out = encoder.encode(table(new, [0.0] * 5))
    expected = [[0, 0, 0], [0.5, 0, 0], [1, 1, 0.5], [1, 1, 1], [0, 0, 0]]
    np.testing.assert_allclose(out[:, 1:4], expected, atol=1e-6)
    assert out[:, 4].tolist() == [0, 0, 0, 0, 1]
    decoded = encoder.decode(out, np.ones((5, 2), dtype=bool))[0]
    np.testing.assert_allclose(decoded, new, rtol=1e-5)
    assert TableEncoder.from_dict(encoder.to_dict()).codes == encoder.codes


def test_bins_are_quantiles_of_many_values():
    values = [float(i**2) for i in range(101)]
    code = TableEncoder.fit(table(values), ["a"], n_bins=4).codes[0]
    knots = code.center + code.scale * np.array(code.knots)
    np.testing.assert_allclose(knots, [0, 625, 2500, 5625, 10000], atol=1e-9)


@pytest.mark.parametrize(
    "knots", [(0.0, 0.0, 1.0), (1.0, 0.0), (0.0, np.nan), (0.0, 1e200), tuple(range(300))]
)
def test_invalid_bins_are_recognised(knots):
    assert not ColumnCode(knots=knots).has_valid_bins


def test_missing_values_seen_in_fit_have_an_indicator():
    encoder = TableEncoder.fit(table([1.0, np.nan, 2.0], [1.0, 2.0, 3.0]), ["a", "b"])
    assert encoder.column_of.tolist() == [0, 0, 1]
    out = encoder.encode(table([np.nan, 1.5], [np.nan, 2.0]))
    assert out[:, 1].tolist() == [1, 0]
    assert np.isfinite(out).all()


def test_categories_are_one_hot_encoded():
    encoder = TableEncoder.fit(table(["b", "a", None, "b"]), ["c"])
    assert encoder.codes[0].categories == ("a", "b")
    out = encoder.encode(table(["a", "b", None, "new"]))
    assert out.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_only_frequent_categories_have_an_indicator():
    values = [f"v{i}" for i in range(200)] + ["v0"] * 5
    encoder = TableEncoder.fit(table(values), ["c"])
    assert len(encoder.codes[0].categories) == MAX_CATEGORIES
    assert "v0" in encoder.codes[0].categories


def test_constant_and_all_missing_columns():
    encoder = TableEncoder.fit(table([3.0] * 4, [np.nan] * 4), ["a", "b"])
    assert np.isfinite(encoder.encode(table([3.0, 4.0], [np.nan, 1.0]))).all()


def test_pixels_share_one_scale():
    encoder = TableEncoder.fit(table([0.0, 0.0], [0.0, 255.0]), ["a", "b"], joint=True)
    assert encoder.codes[0] == encoder.codes[1]


def test_dict_round_trip():
    encoder = TableEncoder.fit(table([1.0, np.nan], ["x", None]), ["a", "b"])
    assert TableEncoder.from_dict(encoder.to_dict()).codes == encoder.codes


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20),
    st.lists(st.one_of(st.floats(-1e308, 1e308), st.just(float("nan"))), min_size=1, max_size=5),
)
def test_every_number_has_a_finite_encoding(fitted, new):
    encoder = TableEncoder.fit(table(fitted), ["a"])
    with np.errstate(over="ignore"):
        out = encoder.encode(table(new))
    assert np.isfinite(out).all()
    assert (np.abs(out) <= BOUND * (1 + 1e-6)).all()
