"""Counterfactual probes of a deterministic selector: one different answer is a proof.

The search has three parts, each only as long as no leak is proven: pairs of real rows, which are
free; a uniform sweep over all rows, which is what the promise about the detectable rate rests on;
and an adaptive part, which asks where leaks are likely to hide.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from suwr.audit._oracle import Oracle
from suwr.audit._pairs import disagreements, n_agreeing_rows
from suwr.audit._redraw import PROPOSALS, UNIFORM, Deck, hidden_units, single
from suwr.audit._surrogate import Surrogate
from suwr.audit._table import IntArray
from suwr.audit._witness import Witness, confirm, make_witness, shrink
from suwr.selector import BoolArray

_N_SWEEPS = 6
_CANDIDATES_PER_PROBE = 6
_CONFIRM_AT_MOST = 20
_MAX_MEMORY = 12_000
_MAX_CELLS = 10_000_000


@dataclass
class ProbeResult:
    """What the counterfactual probes of a deterministic selector found.

    Attributes
    ----------
    witness : Witness or None
    n_real_pairs : int
        Rows that agree with another row on all they reveal; only these can be tested on the
        empirical support.
    n_uniform, n_uniform_changed : int
        Probes of the uniform sweep, and how many of them changed the mask.
    n_adaptive : int
        Probes that were aimed.
    n_unconfirmed : int
        Different answers that did not come again when the selector was asked again.
    influence : dict
        For each unit, the share of probes in which redrawing it alone, while hidden, changed the
        mask. Only filled when there is a leak.
    """

    witness: Witness | None = None
    n_real_pairs: int = 0
    n_uniform: int = 0
    n_uniform_changed: int = 0
    n_adaptive: int = 0
    n_unconfirmed: int = 0
    influence: dict[str, float] = field(default_factory=dict)


def row_weights(deck: Deck, n_neighbors: int = 10, max_rows: int = 2000) -> NDArray[np.float64]:
    """Where leaks are likely to hide: rows with much hidden, rare masks, and near a boundary.

    A row is near a boundary when rows much like it get another mask, or carry another label.
    """
    hidden = hidden_units(deck.masks, deck.unit_of, deck.n_units).mean(axis=1)
    rare = 1.0 / np.sqrt(np.bincount(deck.mask_id)[deck.mask_id])
    scale = deck.unit_codes.max(axis=0) + 1.0
    points = deck.unit_codes / scale
    sample = slice(0, min(deck.n_rows, max_rows))
    near = _neighbors(points, points[sample], n_neighbors)
    boundary = (deck.mask_id[near] != deck.mask_id[:, None]).mean(axis=1)
    interest = 0.25 + rare + boundary
    if deck.labels is not None:
        interest += 0.5 * (deck.labels[near] != deck.labels[:, None]).mean(axis=1)
    weights = hidden * interest
    total = weights.sum()
    return weights / total if total > 0 else np.full(deck.n_rows, 1.0 / deck.n_rows)


def _neighbors(points: NDArray[np.float64], pool: NDArray[np.float64], k: int) -> IntArray:
    square = (pool**2).sum(axis=1)
    k = min(k, len(pool) - 1)
    parts = []
    for start in range(0, len(points), 1000):
        distance = square - 2.0 * points[start : start + 1000] @ pool.T
        parts.append(np.argpartition(distance, k, axis=1)[:, :k])
    return np.concatenate(parts)


def search(
    oracle: Oracle,
    deck: Deck,
    support: str,
    n_probes: int,
    rng: np.random.Generator,
) -> ProbeResult:
    """Look for a witness; see the module's docstring for the plan.

    Parameters
    ----------
    oracle : Oracle
    deck : Deck
        With the selector's answers for the rows of the table.
    support : {"auto", "empirical", "product"}
    n_probes : int
        Most probes to spend, without those that confirm and explain a leak.
    rng : numpy.random.Generator
    """
    table = oracle.table
    masks = deck.masks
    result = ProbeResult()
    if support != "product":
        result.n_real_pairs = n_agreeing_rows(table.codes, masks)
        _try_pairs(oracle, result, masks, rng)
    if support == "empirical":
        return result
    with oracle.until_late():
        _uniform(oracle, deck, result, n_probes, rng)
        _adaptive(oracle, deck, result, n_probes - result.n_uniform, rng)
        if result.witness is not None:
            result.influence = influence(oracle, deck, rng, most=max(n_probes // 2, 100))
    return result


def _try_pairs(
    oracle: Oracle, result: ProbeResult, masks: BoolArray, rng: np.random.Generator
) -> None:
    codes = oracle.table.codes
    pairs = rng.permutation(disagreements(codes, masks))
    # The more alike the two rows are, the more the witness tells.
    n_different = (codes[pairs[:, 0]] != codes[pairs[:, 1]]).sum(axis=1)
    for i, j in pairs[np.argsort(n_different, kind="stable")][:_CONFIRM_AT_MOST]:
        source, other = oracle.table.itself(np.array([i, j]))
        if confirm(oracle, source, other):
            result.witness = make_witness(
                oracle, source, other, masks[i], masks[j], support="empirical"
            )
            return
        result.n_unconfirmed += 1


def _uniform(
    oracle: Oracle, deck: Deck, result: ProbeResult, n_probes: int, rng: np.random.Generator
) -> None:
    """Sweeps over the rows in random order, at most about half of the budget."""
    left = max(n_probes // 2, 1)
    for sweep in range(_N_SWEEPS):
        rows = rng.permutation(deck.n_rows)[:left]
        left -= len(rows)
        redraw = UNIFORM[sweep % len(UNIFORM)]
        sources = redraw(deck, rows, deck.masks[rows], rng)
        changed = (oracle.select(sources) != deck.masks[rows]).any(axis=1)
        result.n_uniform += len(rows)
        result.n_uniform_changed += int(changed.sum())
        _try_probes(oracle, result, rows[changed], sources[changed], rng)
        if result.witness is not None or left == 0:
            return


def _try_probes(
    oracle: Oracle,
    result: ProbeResult,
    rows: IntArray,
    sources: IntArray,
    rng: np.random.Generator,
) -> None:
    """Confirm candidates, until one holds; then make it small."""
    if result.witness is not None:
        return
    with oracle.at_any_time():
        for k in rng.permutation(len(rows))[:_CONFIRM_AT_MOST]:
            source = oracle.table.itself(rows[k : k + 1])[0]
            if not confirm(oracle, source, sources[k]):
                result.n_unconfirmed += 1
                continue
            small = shrink(oracle, source, sources[k], rng)
            other = small if confirm(oracle, source, small) else sources[k]
            mask, mask_other = oracle.select(np.stack([source, other]))
            result.witness = make_witness(oracle, source, other, mask, mask_other, "product")
            return


def _adaptive(
    oracle: Oracle,
    deck: Deck,
    result: ProbeResult,
    n_probes: int,
    rng: np.random.Generator,
) -> None:
    """Rounds of aimed probes: propose many, ask about those where the surrogate expects a leak."""
    table = oracle.table
    weights = row_weights(deck)
    seen_codes, seen_masks = [table.codes], [deck.masks]
    round_size = int(np.clip(n_probes // 5, 200, 4000))
    while n_probes > 0 and result.witness is None:
        size = min(round_size, n_probes)
        n_probes -= size
        surrogate = Surrogate(table.n_columns, rng).fit(
            np.concatenate(seen_codes)[-_MAX_MEMORY:], np.concatenate(seen_masks)[-_MAX_MEMORY:]
        )
        n_candidates = min(size * _CANDIDATES_PER_PROBE, _MAX_CELLS // table.n_columns)
        rows, sources = _proposals(deck, weights, max(n_candidates, size), rng)
        score = surrogate.surprise(table.codes_at(sources), deck.masks[rows])
        best = np.argsort(-score, kind="stable")[: (3 * size) // 4]
        # A quarter is left to chance: the surrogate may be wrong everywhere.
        rest = rng.choice(np.setdiff1d(np.arange(len(rows)), best), size - len(best), replace=False)
        chosen = np.concatenate([best, rest])
        rows, sources = rows[chosen], sources[chosen]
        answers = oracle.select(sources)
        result.n_adaptive += len(rows)
        changed = (answers != deck.masks[rows]).any(axis=1)
        _try_probes(oracle, result, rows[changed], sources[changed], rng)
        seen_codes.append(table.codes_at(sources))
        seen_masks.append(answers)


def _proposals(
    deck: Deck, weights: NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    rows = rng.choice(deck.n_rows, size=size, p=weights)
    kind = rng.integers(len(PROPOSALS), size=size)
    sources = np.empty((size, len(deck.unit_of)), dtype=np.intp)
    for k, redraw in enumerate(PROPOSALS):
        of_kind = kind == k
        sources[of_kind] = redraw(deck, rows[of_kind], deck.masks[rows[of_kind]], rng)
    return rows, sources


def influence(
    oracle: Oracle, deck: Deck, rng: np.random.Generator, per_unit: int = 100, most: int = 6000
) -> dict[str, float]:
    """Share of probes in which redrawing one hidden unit alone changed the mask, per unit."""
    table = oracle.table
    size = min(per_unit * deck.n_units, most)
    rows = rng.integers(deck.n_rows, size=size)
    sources = single(deck, rows, deck.masks[rows], rng)
    moved = sources != rows[:, None]
    known = moved.any(axis=1)
    unit = table.unit_of[moved.argmax(axis=1)]
    changed = (oracle.select(sources[known]) != deck.masks[rows[known]]).any(axis=1)
    total = np.bincount(unit[known], minlength=deck.n_units)
    hits = np.bincount(unit[known], weights=changed, minlength=deck.n_units)
    share = hits / np.maximum(total, 1)
    order = np.argsort(-share, kind="stable")
    return {table.unit_names[u]: float(share[u]) for u in order if hits[u] and total[u] >= 10}
