"""Leakage by definition, and the theorems of the paper."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.exact import FiniteProblem, PolicyTable, as_table, cube, five_blocks, leakage, leaky_pair

ALL = np.array(list(product([False, True], repeat=2)))


@st.composite
def policies(draw):
    """A problem with two features and any policy: leaky, leak-free, or a mixture of them."""
    weights = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
    labels = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    noise = draw(st.booleans())
    y = np.eye(3)[labels] * (0.5 if noise else 1.0) + (0.5 / 3 if noise else 0.0)
    problem = FiniteProblem(cube(2), y, np.array(weights) / sum(weights), loss="cross_entropy")
    kind = draw(st.sampled_from(["any", "constant", "tree", "mixture"]))
    n = problem.n_rows
    row = st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any)
    if kind == "any":
        table = np.array([draw(row) for _ in range(n)], dtype=float)
    else:
        table = np.tile(np.array(draw(row), dtype=float), (n, 1))
    if kind == "tree":  # reveal x1, then x2 if x1 is 1
        table = np.zeros((n, 4))
        table[problem.X[:, 0] == 0, 2] = 1
        table[problem.X[:, 0] == 1, 3] = 1
    if kind == "mixture":
        table = table / table.sum(axis=1, keepdims=True)
        tree = np.eye(4)[np.where(problem.X[:, 0] == 1, 3, 2)]
        table = table + tree
    return PolicyTable(problem, ALL, table / table.sum(axis=1, keepdims=True))


@settings(max_examples=200)
@given(policies())
def test_the_theorems_of_the_paper(table):
    report = leakage(table.problem, table)
    # Main corollary: no leakage if and only if the condition holds.
    assert report.condition.leaks == (report.label.leaks or report.feature.leaks)
    # The theorem on feature leakage, for a selector that sees features only.
    assert report.feature.leaks == report.condition.leaks
    # The label leaks at most as much as the features.
    assert report.label.bits <= report.feature.bits + 1e-9
    assert report.feature.bits == pytest.approx(report.condition.bits, abs=1e-9)
    for part in (report.label, report.feature, report.condition):
        assert part.leaks == (part.bits > 1e-7)
        assert part.leaks == (part.witness is not None)


@settings(max_examples=100)
@given(policies())
def test_label_leakage_theorem_by_direct_sums(table):
    """No label leakage if and only if p(h | x[in]) = p(h | x[in], y), computed by direct sums."""
    problem = table.problem
    joint = problem.p[:, None] * problem.label_distribution.toarray()
    differs = False
    for m, mask in enumerate(table.masks):
        keys = [tuple(x[mask]) for x in problem.X]
        for key in set(keys):
            rows = [i for i, k in enumerate(keys) if k == key]
            zeta = table.probabilities[rows, m]
            overall = problem.p[rows] @ zeta / problem.p[rows].sum()
            for label in range(joint.shape[1]):
                mass = joint[rows, label].sum()
                if mass > 0:
                    differs |= abs(joint[rows, label] @ zeta / mass - overall) > 1e-9
    assert leakage(problem, table).label.leaks == differs


@settings(max_examples=100)
@given(policies())
def test_witnesses_are_valid(table):
    problem = table.problem
    report = leakage(problem, table)
    for part in (report.label, report.feature, report.condition):
        w = part.witness
        if w is None:
            continue
        np.testing.assert_array_equal(w.x[w.mask], w.x_other[w.mask])
        rows = problem.locate([w.x.tolist(), w.x_other.tolist()])
        column = np.flatnonzero((table.masks == w.mask).all(axis=1))[0]
        assert w.probability == table.probabilities[rows[0], column]
        assert w.probability_other == table.probabilities[rows[1], column]
        assert w.probability != w.probability_other
    if report.label.witness is not None:
        w = report.label.witness
        a, b = problem.locate([w.x.tolist(), w.x_other.tolist()])
        y = problem.label_distribution.toarray()
        assert (y[a] != y[b]).any()


def test_table_one_of_the_paper():
    report = leakage(*leaky_pair())
    assert report.leaks
    # Three selections out of four leak one bit each, the empty one two.
    for part in (report.label, report.feature, report.condition):
        assert part.bits == pytest.approx(1.25)
    assert report.witness is not None
    assert "label     leaks" in report.summary()


def test_feature_leakage_without_label_leakage():
    # y depends on x1 only, which is always revealed; whether x2 is revealed determines x2.
    problem = FiniteProblem(cube(2), [0, 0, 1, 1])
    report = leakage(problem, problem.X[:, 1][:, None] * [False, True] | [True, False] == 1)
    assert report.feature.leaks
    assert not report.label.leaks
    assert report.label.bits == 0
    # x2 is hidden with probability 1/2 and then known to be 0, which is one bit.
    assert report.feature.bits == pytest.approx(0.5)


def test_the_five_blocks_do_not_leak():
    report = leakage(*five_blocks())
    assert not report.leaks
    assert not report.condition.leaks
    assert (report.label.bits, report.feature.bits, report.condition.bits) == (0, 0, 0)
    assert report.witness is None


def test_policies_in_every_form():
    problem, masks = five_blocks()
    table = as_table(problem, masks)

    class Model:
        def mask_probability(self, X, masks):
            place = problem.locate(X)
            match = (masks[:, :, None] == table.masks).all(axis=-1)
            return np.einsum("nmk,nk->nm", np.broadcast_to(match, (len(X), *match.shape[1:])),
                             table.probabilities[place])  # fmt: skip

    forms = [table, (table.masks, table.probabilities), lambda X: masks, Model(), masks.tolist()]
    for form in forms:
        found = as_table(problem, form)
        sizes = found.probabilities @ found.masks.sum(axis=1)
        assert problem.p @ sizes == pytest.approx(2.25)
        assert not leakage(problem, form).leaks


@pytest.mark.parametrize(
    ("masks", "probabilities", "message"),
    [
        ([[True]], [[1.0]] * 4, r"shape \(m, 2\)"),
        ([[True, True]], [[1.0]] * 3, r"shape \(4, 1\)"),
        ([[True, True]] * 2, [[0.5, 0.5]] * 4, "must not repeat a mask"),
        ([[True, True]], [[0.5]] * 4, "4 row.* that do not sum to 1"),
        ([[True, True], [False, False]], [[1.5, -0.5]] * 4, "4 negative"),
    ],
)
def test_wrong_tables(masks, probabilities, message):
    with pytest.raises(ValueError, match=message):
        PolicyTable(leaky_pair()[0], masks, probabilities)


def test_wrong_number_of_masks():
    with pytest.raises(ValueError, match=r"\(4, 2\).*Got shape \(2, 2\)"):
        leakage(leaky_pair()[0], [[True, True], [False, False]])
