"""Accepted and rejected parameters of FiniteProblem, and the states it enumerates."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

from suwr.exact import FiniteProblem, cube, solve
from suwr.exact.states import ProductStates, SparseStates
from suwr.exceptions import ProblemTooLargeError, SuwrError

SQUARE = [[0, 0], [0, 1], [1, 0], [1, 1]]


def layout(problem, kind):
    """The states of a problem in a chosen layout."""
    return kind(problem.support)


def test_defaults_are_uniform_and_squared_error_for_numbers():
    problem = FiniteProblem(SQUARE, [0, 0, 0, 4])
    np.testing.assert_array_equal(problem.p, np.full(4, 0.25))
    assert problem.loss == "squared_error"
    assert (problem.n_rows, problem.n_features, problem.n_states) == (4, 2, 9)


def test_loss_of_string_labels_is_cross_entropy():
    problem = FiniteProblem(SQUARE, ["no", "no", "no", "yes"])
    assert problem.loss == "cross_entropy"
    assert problem.labels.tolist() == ["no", "yes"]
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert problem.states.risk[problem.states.root] == pytest.approx(entropy)


@pytest.mark.parametrize("make", [list, np.array, pd.DataFrame, pl.DataFrame])
def test_tables_of_every_kind_give_the_same_solution(make):
    rows = [["red", 1], ["red", 2], ["blue", 1], ["blue", 2]]
    if make in (pd.DataFrame, pl.DataFrame):
        X = make({"colour": [r[0] for r in rows], "size": [r[1] for r in rows]})
    elif make is np.array:
        X = np.array(rows, dtype=object)
    else:
        X = rows
    problem = FiniteProblem(X, [0, 0, 0, 4])
    solution = solve(problem, 0.1)
    assert solution.n_selected == 1.5
    np.testing.assert_array_equal(
        solution.mask_probability(X, [[True, True]] * 4) > 0,
        solution.select(X).all(axis=1),
    )


def test_a_list_of_numbers_and_strings_keeps_its_numbers():
    problem = FiniteProblem([[1, "a"], [2, "b"]], [0, 1])
    assert problem.X[0, 0] == 1
    assert problem.X[0, 1] == "a"


def test_missing_values_are_values():
    nan = float("nan")
    problem = FiniteProblem([[nan, 0], [nan, 1], [1.0, 0], [1.0, 1]], [3, 3, 0, 0])
    assert problem.n_states == 9
    assert solve(problem, 0.1).n_selected == 1
    assert problem.locate([[nan, 1]]).tolist() == [1]


def test_three_values_and_a_constant_column():
    problem = FiniteProblem([[a, b, 7] for a, b in product("xyz", range(2))], range(6))
    assert problem.n_states == 4 * 3 * 2


def test_rows_of_probability_zero_are_dropped():
    problem = FiniteProblem(SQUARE, [0, 0, 0, 4], p=[0.5, 0.25, 0.25, 0])
    assert problem.n_rows == 3
    assert problem.n_states == 1 + 2 + 2 + 3
    with pytest.raises(ValueError, match=r"1 row.* probability 0"):
        problem.locate([[1, 1]])


def test_repeated_rows_of_equal_probability_are_several_labels():
    problem = FiniteProblem([[0], [0], [1], [1]], ["a", "b", "a", "a"])
    np.testing.assert_allclose(problem.p, [0.5, 0.5])
    np.testing.assert_allclose(problem.label_distribution.toarray(), [[0.5, 0.5], [1, 0]])


def test_repeated_rows_are_counted():
    X = [[0, "u"], [1, "u"], [0, "u"], [0, "u"]]
    problem = FiniteProblem(X, [1.0, 2.0, 3.0, 2.0])
    np.testing.assert_allclose(problem.p, [0.75, 0.25])
    assert problem.states.risk[problem.states.root] == pytest.approx(np.var([1, 2, 3, 2]))


def test_label_distributions_as_mappings_and_as_a_matrix():
    rows = [{"a": 0.5, "b": 0.5}, {"b": 1.0}]
    one = FiniteProblem([[0], [1]], rows)
    two = FiniteProblem([[0], [1]], [[0.5, 0.5], [0, 1]], labels=["a", "b"])
    np.testing.assert_allclose(one.label_distribution.toarray(), two.label_distribution.toarray())
    numbers = FiniteProblem([[0], [1]], [{0: 0.5, 2: 0.5}, {2: 1.0}])
    assert numbers.loss == "squared_error"
    assert solve(numbers, 0).loss == pytest.approx(0.5)  # the irreducible noise of the first row


def test_best_predictor_of_each_loss():
    y = [{"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.8}]
    for loss, expected in (
        ("zero_one", 0.5 * 0.1 + 0.5 * 0.2),
        ("cross_entropy", -np.mean([0.9 * np.log(0.9) + 0.1 * np.log(0.1),
                                    0.2 * np.log(0.2) + 0.8 * np.log(0.8)])),
    ):  # fmt: skip
        problem = FiniteProblem([[0], [1]], y, loss=loss)
        solution = solve(problem, 0)
        assert solution.loss == pytest.approx(expected)
        np.testing.assert_allclose(
            solution.predict_masked([[0], [1]], [[True], [False]]), [[0.9, 0.1], [0.55, 0.45]]
        )


@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy", "zero_one"])
@pytest.mark.parametrize("with_costs", [False, True])
def test_both_layouts_hold_the_same_states(loss, with_costs):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (12, 3))
    X = np.unique(X, axis=0)
    p = rng.dirichlet(np.ones(len(X)))
    y = rng.dirichlet(np.ones(3), len(X))
    costs = [1.0, 0.5, 3.0] if with_costs else None
    problem = FiniteProblem(X, y, p, loss=loss, costs=costs)
    dense, sparse = layout(problem, ProductStates), layout(problem, SparseStates)
    assert dense.n_positive == sparse.n_positive == sparse.n_states
    rows, masks = np.arange(len(X))[:, None], np.arange(8)
    a, b = dense.index(rows, masks), sparse.index(rows, masks)
    np.testing.assert_array_equal(dense.masks_of(a), sparse.masks_of(b))
    np.testing.assert_array_equal(dense.masks_of(a), np.broadcast_to(masks, a.shape))
    for name in ("mass", "risk", "size", "cost_mass"):
        np.testing.assert_allclose(getattr(dense, name)[a], getattr(sparse, name)[b], atol=1e-15)
    np.testing.assert_allclose(
        dense.prediction(a.reshape(-1)), sparse.prediction(b.reshape(-1)), atol=1e-14
    )
    np.testing.assert_allclose(dense.mask_totals(dense.risk), sparse.mask_totals(sparse.risk))
    values = []
    for states in (dense, sparse):
        value = states.stop_cost(np.array([0.01, 0.1, 1.0]))
        cost = np.repeat(states.cost_mass[:, None], 3, axis=1)
        states.sweep(value, cost)
        values.append((value[states.root], cost[states.root]))
    np.testing.assert_allclose(values[0], values[1])


def test_sparse_supports_use_the_sparse_layout():
    X = np.random.default_rng(0).integers(0, 50, (30, 8))
    problem = FiniteProblem(X, np.arange(30))
    assert isinstance(problem.states, SparseStates)
    assert problem.n_states <= 30 * 2**8
    assert isinstance(FiniteProblem(cube(3), range(8)).states, ProductStates)


BAD_P = {
    "negative": ([0.5, 0.7, -0.1, -0.1], "2 negative value"),
    "nan": ([0.5, float("nan"), 0.25, 0.25], "1 NaN or infinite"),
    "sum": ([0.5, 0.25, 0.25, 0.25], "sum of 1.25"),
    "shape": ([0.5, 0.5], r"shape \(2,\)"),
    "text": (["a", "b", "c", "d"], "an array of numbers"),
}


@pytest.mark.parametrize("case", BAD_P)
def test_wrong_probabilities(case):
    p, message = BAD_P[case]
    with pytest.raises(ValueError, match=f"The 'p' parameter of FiniteProblem must .*{message}"):
        FiniteProblem(SQUARE, [0, 0, 0, 1], p=p)


def test_rows_repeated_with_different_probabilities():
    with pytest.raises(ValueError, match=r"1 repeated row.*row 1 has 0.3, its first.* 0.2"):
        FiniteProblem([[0], [0], [1]], [1, 1, 0], p=[0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "every one of the 4 rows of X. Got 2 label"),
        ([0, None, None, 1], "Got 2 row.* without a label"),
        ([0.0, float("nan"), 1.0, 1.0], "Got 1 row.* without a label"),
        ([{"a": 1.0}, {}, {"a": 1.0}, {"a": 1.0}], "Got 1 row.* without a label"),
        ([[0.5, 0.5], [0.5, 0.6], [1, 0], [1, 0]], "1 row.* that do not; row 1 sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5], [1, 0], [1, 0]], "1 negative or non-finite"),
    ],
)
def test_wrong_labels(y, message):
    with pytest.raises(ValueError, match=f"The 'y' parameter.*{message}"):
        FiniteProblem(SQUARE, y)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"costs": [1.0]}, "costs"),
        ({"costs": [1.0, -1.0]}, "costs"),
        ({"max_memory": 0}, "max_memory"),
        ({"max_memory": 1.5}, "max_memory"),
    ],
)
def test_wrong_parameters(arguments, name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of FiniteProblem must be"):
        FiniteProblem(SQUARE, [0, 0, 0, 1], **arguments)


def test_squared_error_needs_numbers():
    with pytest.raises(ValueError, match=r"'loss' parameter.*labels are not numbers"):
        FiniteProblem(SQUARE, ["a", "b", "a", "b"], loss="squared_error")


@pytest.mark.parametrize("X", [[], [[], []], [1, 2, 3]])
def test_empty_or_flat_tables(X):
    with pytest.raises(ValueError, match="'X' parameter"):
        FiniteProblem(X, [0, 1, 0][: len(X)])


def test_too_many_states_raise_before_allocation():
    X = np.random.default_rng(0).integers(0, 2, (200, 40))
    problem = FiniteProblem(X, np.arange(200))
    with pytest.raises(ProblemTooLargeError, match=f"{200 * 2**40:,} masked states.* limit is"):
        solve(problem, 0.1)
    assert issubclass(ProblemTooLargeError, SuwrError)


def test_the_memory_limit_can_be_set():
    problem = FiniteProblem(cube(6), range(64), max_memory=10_000)
    with pytest.raises(ProblemTooLargeError, match=r"729 masked states.*1e-05 GB"):
        solve(problem, 0.1)


def test_locate_counts_columns():
    with pytest.raises(ValueError, match="X has 3 features, but FiniteProblem is expecting 2"):
        FiniteProblem(SQUARE, [0, 0, 0, 1]).locate([[0, 0, 0]])
