import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr._utils.draws import RowDraws, philox

SEEDS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000",
         "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
         "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)  # fmt: skip
def test_philox_gives_the_known_answers_of_random123(counter, key, words):
    def parts(text):
        return tuple(np.array([int(word, 16)], dtype=np.uint64) for word in text.split())

    found = philox(parts(counter), parts(key))
    assert [f"{word:08x}" for word in found[0].tolist()] == words.split()


def test_the_words_of_a_draw_are_those_of_its_counter():
    """The counter is the block of numbers, the draw, and the halves of the position."""
    seed, position, draw = 2**40 + 3, 2**33 + 5, 7
    draws = RowDraws(np.array([seed], np.uint64), np.array([position], np.uint64))
    found = draws.uniform(draw, 6)[0]
    for block in range(2):
        counter = tuple(np.array([word], np.uint64) for word in (block, draw, 5, 2))
        words = philox(counter, (np.array([3], np.uint64), np.array([2**8], np.uint64)))[0]
        expected = ((words + 0.5) / 2**32)[: 6 - 4 * block]
        np.testing.assert_array_equal(found[4 * block : 4 * block + 4], expected)


@given(seed=SEEDS, n=st.integers(1, 300), more=st.integers(0, 300), data=st.data())
def test_the_draws_of_a_row_depend_on_its_seed_and_position_alone(seed, n, more, data):
    whole = RowDraws.of(seed, n + more, "select")
    first = RowDraws.of(seed, n, "select")
    rows = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=9)), dtype=np.intp)
    for method in ("uniform", "gumbel"):
        expected = getattr(whole, method)(3, 9)
        np.testing.assert_array_equal(getattr(first, method)(3, 9), expected[:n])
        np.testing.assert_array_equal(getattr(whole[rows], method)(3, 9), expected[rows])
        np.testing.assert_array_equal(getattr(whole[n:], method)(3, 5), expected[n:, :5])


@given(seeds=st.lists(SEEDS, min_size=1, max_size=20), data=st.data())
def test_a_row_of_its_own_seed_has_the_same_draws_at_every_position(seeds, data):
    seeds = np.array(seeds, dtype=np.uint64)
    whole = RowDraws.of(seeds, len(seeds), "select").uniform(0, 5)
    order = np.array(data.draw(st.permutations(range(len(seeds)))))
    moved = RowDraws.of(seeds[order], len(seeds), "select").uniform(0, 5)
    np.testing.assert_array_equal(moved, whole[order])
    for i, seed in enumerate(seeds.tolist()):
        np.testing.assert_array_equal(RowDraws.of(seed, 1, "select").uniform(0, 5)[0], whole[i])


def test_draws_are_uniform_and_independent():
    n = 50_000
    draws = RowDraws.of(0, n, "select")
    numbers = np.hstack([draws.uniform(0, 6), draws.uniform(1, 6)])
    numbers = np.hstack([numbers, RowDraws.of(1, n, "select").uniform(0, 6)])
    assert ((numbers > 0) & (numbers < 1)).all()
    # Neighbouring rows are columns as well.
    numbers = np.hstack([numbers[:-1], numbers[1:]])
    moments = np.corrcoef(numbers.T) - np.eye(36)
    assert abs(moments).max() < 6 / np.sqrt(n)
    counts = np.stack([np.histogram(column, 20, (0, 1))[0] for column in numbers.T])
    assert abs(counts / n - 0.05).max() < 6 * np.sqrt(0.05 / n)


def test_gumbel_noise_has_its_distribution_function():
    noise = np.sort(RowDraws.of(0, 20_000, "select").gumbel(0, 5).ravel())
    expected = np.exp(-np.exp(-noise.astype(float)))
    assert abs(expected - (np.arange(100_000) + 0.5) / 100_000).max() < 0.006


def test_one_seed_is_drawn_of_a_random_state():
    first = RowDraws.of(np.random.RandomState(0), 3, "select")
    again = RowDraws.of(np.random.RandomState(0), 3, "select")
    np.testing.assert_array_equal(first.uniform(0, 2), again.uniform(0, 2))
    unseeded = [RowDraws.of(None, 3, "select").uniform(0, 2) for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).all()
    assert len(np.unique(first.uniform(0, 2))) == 6


def test_no_rows():
    draws = RowDraws.of(0, 0, "select")
    assert draws.uniform(0, 3).shape == draws.gumbel(0, 3).shape == (0, 3)


@pytest.mark.parametrize(
    "state", [-1, 2**64, 0.5, True, "0", [1, 2], [1.0, 2.0, 3.0], [1, 2, -3], np.zeros((3, 1), int),
              [True, False, True], np.random.default_rng(0)],
)  # fmt: skip
def test_invalid_states(state):
    with pytest.raises(ValueError, match=r"'random_state' parameter of select must be .*\(3,\)"):
        RowDraws.of(state, 3, "select")
