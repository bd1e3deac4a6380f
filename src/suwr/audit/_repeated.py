"""A test for selectors that draw their masks, on single pairs of rows.

Where a leak is confined to few rows, or where only real rows may be asked about (empirical
support), pooling does not help: here both rows of a pair are asked many times. Pairs that show
the largest difference are kept for the next, larger round, and the last round is judged on draws
of its own.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from suwr.audit._factorial import one_sided_fisher
from suwr.audit._oracle import Oracle
from suwr.audit._pairs import group_rows
from suwr.audit._redraw import PROPOSALS, Deck
from suwr.audit._table import IntArray
from suwr.selector import BoolArray

Key = bytes


@dataclass(frozen=True)
class Pair:
    """Two probes and the mask whose probability seems to differ between them."""

    source: IntArray
    other: IntArray
    mask: BoolArray | None = None
    sign: int = 1
    z: float = 0.0


@dataclass(frozen=True)
class PairResult:
    """A pair, tested on draws that were not used to find it."""

    pair: Pair
    p_value: float
    share: float
    share_other: float
    n: int


def propose_pairs(
    oracle: Oracle,
    deck: Deck,
    n_pairs: int,
    support: str,
    rng: np.random.Generator,
) -> list[Pair]:
    """Rows, a drawn mask for each, and a redraw of what it hides."""
    rows = rng.integers(deck.n_rows, size=n_pairs)
    table = oracle.table
    itself = table.itself(rows)
    masks = oracle.select(itself)
    if support == "empirical":
        return _real_pairs(table.codes, rows, masks)
    pairs = []
    for k in range(n_pairs):
        redraw = PROPOSALS[k % len(PROPOSALS)]
        other = redraw(deck, rows[k : k + 1], masks[k : k + 1], rng)[0]
        pairs.append(Pair(itself[k], other))
    return pairs


def _real_pairs(codes: IntArray, rows: IntArray, masks: BoolArray) -> list[Pair]:
    pairs = []
    n_columns = codes.shape[1]
    whole = group_rows(codes)
    for row, mask in zip(rows, masks, strict=True):
        agrees = (codes[:, mask] == codes[row, mask]).all(axis=1) & (whole != whole[row])
        for other in np.flatnonzero(agrees)[:1]:
            pairs.append(Pair(np.full(n_columns, row), np.full(n_columns, other)))
    return pairs


def draw(oracle: Oracle, pair: Pair, n_draws: int) -> tuple[Counter[Key], Counter[Key]]:
    """Masks drawn for both rows, in one batch and in turn, so that both meet the same company."""
    both = np.stack([pair.source, pair.other])
    masks = oracle.select(np.tile(both, (n_draws, 1)))
    return (
        Counter(mask.tobytes() for mask in masks[0::2]),
        Counter(mask.tobytes() for mask in masks[1::2]),
    )


def loudest_mask(
    oracle: Oracle, pair: Pair, counts: tuple[Counter[Key], Counter[Key]], n_draws: int
) -> Pair:
    """The mask, among those on whose values both rows agree, that differs most in frequency."""
    codes = oracle.table.codes_at(np.stack([pair.source, pair.other]))
    equal = codes[0] == codes[1]
    best = pair
    for key in set(counts[0]) | set(counts[1]):
        mask = np.frombuffer(key, dtype=bool)
        if (mask & ~equal).any():
            continue
        a, b = counts[0][key], counts[1][key]
        share = (a + b) / (2 * n_draws)
        spread = np.sqrt(max(share * (1 - share), 1e-12) * 2 / n_draws)
        z = abs(a - b) / n_draws / spread
        if z > best.z:
            best = Pair(pair.source, pair.other, mask, 1 if a > b else -1, float(z))
    return best


def narrow(oracle: Oracle, pairs: list[Pair], rounds: tuple[tuple[int, int], ...]) -> list[Pair]:
    """Keep the loudest pairs, round by round: ``(draws per row, pairs to keep)``."""
    for n_draws, n_keep in rounds:
        if oracle.out_of_time:
            break
        fresh = [Pair(pair.source, pair.other) for pair in pairs]
        judged = [loudest_mask(oracle, p, draw(oracle, p, n_draws), n_draws) for p in fresh]
        judged = [p for p in judged if p.mask is not None]
        pairs = sorted(judged, key=lambda p: -p.z)[:n_keep]
    return [p for p in pairs if p.mask is not None]


def judge_pair(oracle: Oracle, pair: Pair, n_draws: int) -> PairResult:
    """Fisher's exact test on fresh draws, in the direction that was seen before."""
    assert pair.mask is not None
    counts = draw(oracle, pair, n_draws)
    key = pair.mask.tobytes()
    a, b = counts[0][key], counts[1][key]
    p_value = one_sided_fisher((a, n_draws - a), (b, n_draws - b), pair.sign)
    return PairResult(pair, p_value, a / n_draws, b / n_draws, n_draws)
