"""Counterfactual probes of a selector that tells the probabilities of its masks.

No statistics are needed then: for a row x, a mask h that it may get and a redraw x' of what h
hides, ζ(h | x) and ζ(h | x') are two numbers, and they are equal or not. What is left to chance
is whether the samples really follow those numbers; that is tested too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from suwr.audit._oracle import Oracle
from suwr.audit._redraw import PROPOSALS, UNIFORM, Deck
from suwr.audit._table import IntArray
from suwr.audit._witness import Witness, make_witness
from suwr.selector import BoolArray

# Products of single-precision probabilities over a dozen steps stay well below these.
_ABSOLUTE = 1e-5
_RELATIVE = 1e-3


@dataclass
class ProbabilityResult:
    """What the probes of a selector with known probabilities found.

    Attributes
    ----------
    witness : Witness or None
    n_probes, n_changed : int
        Uniform probes, and in how many of them the probability changed.
    n_aimed : int
        Further probes, of all kinds of redraws.
    mean_shift : float
        Mean of |ζ(h | x) − ζ(h | x')| over the uniform probes.
    follows_samples : bool
        Whether the samples agree with the stated probabilities.
    """

    witness: Witness | None = None
    n_probes: int = 0
    n_changed: int = 0
    n_aimed: int = 0
    mean_shift: float = 0.0
    follows_samples: bool = True


def differ(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether two probabilities differ by more than rounding can explain.

    Examples
    --------
    >>> differ(np.array([0.5, 0.5]), np.array([0.5000001, 0.51])).tolist()
    [False, True]
    """
    return abs(p - q) > _ABSOLUTE + _RELATIVE * np.maximum(p, q)


def probe_probabilities(
    oracle: Oracle,
    deck: Deck,
    n_probes: int,
    rng: np.random.Generator,
) -> ProbabilityResult:
    """Compare ζ(h | x) with ζ(h | x') on redraws of what h hides.

    Parameters
    ----------
    oracle : Oracle
        Its selector must have ``mask_probability``.
    deck : Deck
    n_probes : int
    rng : numpy.random.Generator
    """
    result = ProbabilityResult()
    shifts = []
    size = min(deck.n_rows, 500, n_probes)
    while result.n_probes + result.n_aimed < n_probes and not oracle.out_of_time:
        uniform = result.n_probes <= result.n_aimed
        rows = rng.permutation(deck.n_rows)[:size]
        itself = oracle.table.itself(rows)
        masks = oracle.select(itself)
        kinds = UNIFORM if uniform else PROPOSALS
        redraw = kinds[rng.integers(len(kinds))]
        other = redraw(deck, rows, masks, rng)
        p, q = oracle.probability(itself, masks), oracle.probability(other, masks)
        changed = differ(p, q)
        if uniform:
            result.n_probes += len(rows)
            result.n_changed += int(changed.sum())
            shifts.append(abs(p - q))
        else:
            result.n_aimed += len(rows)
        order = np.argsort(-abs(p - q), kind="stable")
        for k in order[:10]:
            if changed[k] and _holds_alone(oracle, itself[k], other[k], masks[k]):
                result.witness = make_witness(
                    oracle,
                    itself[k],
                    other[k],
                    masks[k],
                    masks[k],
                    "product",
                    float(p[k]),
                    float(q[k]),
                )
                break
        if result.witness is not None:
            break
    result.mean_shift = float(np.concatenate(shifts).mean()) if shifts else 0.0
    return result


def follows_samples(
    oracle: Oracle,
    deck: Deck,
    level: float,
    rng: np.random.Generator,
    n_rows: int = 20,
    n_draws: int = 400,
) -> bool:
    """Whether sampled masks come as often as ``mask_probability`` says, row by row.

    For each row the mask to count is chosen on one half of the draws and counted on the other.
    """
    rows = rng.integers(deck.n_rows, size=n_rows)
    for row in rows:
        itself = oracle.table.itself(np.full(n_draws, row))
        masks = oracle.select(itself)
        half = n_draws // 2
        distinct, counts = np.unique(masks[:half], axis=0, return_counts=True)
        mask = distinct[counts.argmax()]
        p = float(np.clip(oracle.probability(itself[:1], mask[None])[0], 0.0, 1.0))
        seen = int((masks[half:] == mask).all(axis=1).sum())
        if binomtest(seen, half, p).pvalue < level / n_rows:
            return False
    return True


def _holds_alone(oracle: Oracle, source: IntArray, other: IntArray, mask: BoolArray) -> bool:
    p = oracle.probability(source[None], mask[None])
    q = oracle.probability(other[None], mask[None])
    return bool(differ(p, q)[0])
