"""The exact verdict, where all possible rows can be asked about.

The answers are put into a table ζ(h | x), and ``suwr.exact.leakage`` decides by the paper's
definitions. Which rows are possible depends on the support: those of the data, or all
combinations of the values that occur in it.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from suwr.audit._oracle import Oracle
from suwr.audit._table import IntArray, Table
from suwr.audit._witness import Witness, confirm, make_witness
from suwr.exact import FiniteProblem, PolicyTable, leakage
from suwr.selector import all_masks

_MAX_ROWS = 4096
_MAX_TABLE = 2**20
# Probabilities may come from single-precision networks.
_TOLERANCE = 1e-5
_RELATIVE = 1e-3


@dataclass(frozen=True)
class ExactResult:
    """The verdict on a finite support.

    Attributes
    ----------
    leaks : bool
    witness : Witness or None
    support : {"empirical", "product"}
    n_rows : int
        Possible rows, all of which were asked about.
    bits : dict
        What the selection tells beyond the revealed values about the hidden "features" and, where
        labels are known, about the "label": exact mutual information, in bits.
    """

    leaks: bool
    witness: Witness | None
    support: str
    n_rows: int
    bits: dict[str, float]


def distinct_rows(table: Table) -> tuple[IntArray, IntArray]:
    """Positions of the first of each kind of row, and the kind of every row."""
    _, first, kind = np.unique(table.codes, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.intp), kind.reshape(-1).astype(np.intp)


def product_rows(table: Table, most: int = _MAX_ROWS) -> IntArray | None:
    """Sources of all combinations of unit values, or None if there are more than ``most``.

    Examples
    --------
    >>> product_rows(Table(np.array([[0, 5], [1, 6]]))).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    examples = [np.unique(column, return_index=True)[1] for column in table.unit_codes.T]
    if prod(len(e) for e in examples) > most:
        return None
    grid = np.meshgrid(*examples, indexing="ij")
    donors = np.stack([g.reshape(-1) for g in grid], axis=1)
    return donors[:, table.unit_of].astype(np.intp)


def finite_rows(table: Table, support: str, most: int = _MAX_ROWS) -> tuple[IntArray, str] | None:
    """Sources of all possible rows and the name of the support, if they are few enough."""
    most = min(most, _MAX_ROWS)
    first, _ = distinct_rows(table)
    # Data that hardly repeat themselves are a sample of a larger support, not the support.
    discrete = 2 * len(first) <= table.n_rows and len(first) <= most
    if support == "empirical":
        return (table.itself(first), "empirical") if discrete else None
    sources = product_rows(table, most)
    if sources is not None and len(sources) == len(first):  # every combination really occurs
        return table.itself(first), "empirical"
    return None if sources is None else (sources, "product")


def exact_verdict(
    oracle: Oracle,
    sources: IntArray,
    support: str,
    stochastic: bool,
    labels: IntArray | None = None,
    problem: FiniteProblem | None = None,
) -> ExactResult | None:
    """Ask about every possible row, and decide.

    Parameters
    ----------
    oracle : Oracle
    sources : int array of shape (n_possible, n_columns)
        All possible rows.
    support : {"empirical", "product"}
    stochastic : bool
        Whether the selector draws its masks; it must then tell their probabilities.
    labels : int array of shape (n_rows,), optional
        Labels of the rows of the table; used on the empirical support.
    problem : FiniteProblem, optional
        The problem that the rows come from, in its order; made from the rows by default.

    Returns
    -------
    ExactResult or None
        None if the probabilities of too many masks would have to be asked for, if they do not sum
        to one, or if answers changed when they were asked for again.
    """
    table = oracle.table
    if stochastic and (
        not oracle.selector.has_probability
        or table.n_columns > 20
        or len(sources) * 2**table.n_columns > _MAX_TABLE
    ):
        return None
    known_labels = problem is not None or (labels is not None and support == "empirical")
    if problem is None:
        problem, sources = _problem(table, sources, labels if known_labels else None)
    if stochastic:
        masks = all_masks(table.n_columns)
        chances = oracle.probability_of_each(sources, masks)
        total = chances.sum(axis=1, keepdims=True)
        if (abs(total - 1) > _RELATIVE).any():  # not what the selector can really do
            return None
        used = (chances > 0).any(axis=0)
        chances = chances[:, used] / total
        policy = PolicyTable(problem, masks[used], chances)
        chosen = masks[used][chances.argmax(axis=1)]
    else:
        chosen = oracle.select(sources)
        policy = PolicyTable.deterministic(problem, chosen)
    found = leakage(problem, policy, tolerance=_TOLERANCE if stochastic else 1e-9)
    bits = {"features": found.feature.bits}
    if known_labels:
        bits["label"] = found.label.bits
    witness = None
    if found.condition.witness is not None:
        i, j = (
            int(np.flatnonzero((x == problem.X).all(axis=1))[0])
            for x in (found.condition.witness.x, found.condition.witness.x_other)
        )
        w = found.condition.witness
        if stochastic:
            witness = make_witness(
                oracle,
                sources[i],
                sources[j],
                w.mask,
                w.mask,
                support,
                w.probability,
                w.probability_other,
            )
        else:
            if not (chosen[i] == w.mask).all():  # the corollary is symmetric, a witness is not
                i, j = j, i
            if confirm(oracle, sources[i], sources[j]):
                witness = make_witness(
                    oracle, sources[i], sources[j], chosen[i], chosen[j], support
                )
    if found.condition.leaks and witness is None:  # an answer did not come again
        return None
    return ExactResult(found.condition.leaks, witness, support, len(sources), bits)


def _problem(
    table: Table, sources: IntArray, labels: IntArray | None
) -> tuple[FiniteProblem, IntArray]:
    """A problem over the codes of the given rows; the sources come back in its order."""
    codes = table.codes_at(sources)
    if labels is None:
        problem = FiniteProblem(codes, np.zeros(len(codes), dtype=int), loss="zero_one")
    else:
        first, kind = distinct_rows(table)
        counts = np.zeros((len(first), int(labels.max()) + 1))
        np.add.at(counts, (kind, labels), 1.0)
        total = counts.sum(axis=1)
        problem = FiniteProblem(
            codes, counts / total[:, None], total / total.sum(), loss="zero_one"
        )
    place = {tuple(row): i for i, row in enumerate(codes.tolist())}
    order = np.array([place[tuple(int(v) for v in row)] for row in problem.X])
    return problem, sources[order]
