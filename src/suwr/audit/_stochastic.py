"""Counterfactual probes of a selector that draws its masks.

Two tests share the false-alarm rate that the user sets: one pooled over rows (``_factorial``), one
on single pairs (``_repeated``). Each looks for a hypothesis first, as adaptively as it likes, and
then tests the few it found on draws of their own, with Bonferroni's correction. So the rate is
held whatever the search did.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from suwr.audit import _factorial, _repeated
from suwr.audit._oracle import Oracle
from suwr.audit._redraw import Deck
from suwr.audit._table import IntArray
from suwr.audit._witness import Witness, make_witness
from suwr.selector import BoolArray

_N_POOLED = 6
_N_PAIRS = 3
_MAX_PAIRS = 63


@dataclass
class StochasticResult:
    """What the probes of a selector that draws its masks found.

    Attributes
    ----------
    witness : Witness or None
    p_value : float
        The smallest p-value among the confirming tests, already corrected for their number.
    finding : str
        The confirmed hypothesis, in words.
    n_tests : int
        Confirming tests; the false-alarm rate was divided among them.
    detectable_shift : float or None
        Shift in the probability of a set of masks, between low and high values of one hidden
        unit, that would have been confirmed with 95 % probability.
    influence : dict
        For each unit, the largest shift of a probability by its value while hidden, as seen in
        the screening sample. Only filled when there is a leak.
    """

    witness: Witness | None = None
    p_value: float = 1.0
    finding: str = ""
    n_tests: int = 0
    n_draws: int = 0
    detectable_shift: float | None = None
    leaks: bool = False
    influence: dict[str, float] = field(default_factory=dict)


def probe_stochastic(
    oracle: Oracle,
    deck: Deck,
    support: str,
    n_draws: int,
    false_alarm_rate: float,
    rng: np.random.Generator,
) -> StochasticResult:
    """Test ζ(h | x) = ζ(h | x') by drawing masks.

    Parameters
    ----------
    oracle : Oracle
    deck : Deck
    support : {"auto", "empirical", "product"}
    n_draws : int
        Masks to draw, in all.
    false_alarm_rate : float
        Probability, at most, of calling a selector leaky that is not.
    rng : numpy.random.Generator
    """
    result = StochasticResult()
    start = oracle.n_rows
    level = false_alarm_rate if support == "empirical" else false_alarm_rate / 2
    if support != "empirical":
        _pooled(oracle, deck, result, int(0.6 * n_draws), level, rng)
    if not result.leaks and not oracle.out_of_time:
        share = n_draws if support == "empirical" else int(0.4 * n_draws)
        _paired(oracle, deck, result, support, share, level, rng)
    result.n_draws = oracle.n_rows - start
    return result


def _pooled(
    oracle: Oracle,
    deck: Deck,
    result: StochasticResult,
    n_draws: int,
    level: float,
    rng: np.random.Generator,
) -> None:
    half = n_draws // 2
    units = _factorial.units_to_test(oracle.table, rng)
    if not half or not len(units):
        return
    first = _factorial.Sample(oracle, half, units, rng)
    hypotheses = _factorial.screen(first, oracle.table, _N_POOLED)
    result.n_tests += len(hypotheses)
    z = norm.isf(level / _N_POOLED) + norm.isf(0.05)
    result.detectable_shift = float(z * np.sqrt(0.25 * 4 / half))
    if not hypotheses:
        return
    second = _factorial.Sample(oracle, half, units, rng)
    tests = [_factorial.judge(second, h) for h in hypotheses]
    best = min(tests, key=lambda t: t.p_value)
    # Two families share the rate, so a corrected p-value counts both.
    result.p_value = min(result.p_value, 1.0, 2 * len(tests) * best.p_value)
    if best.p_value > level / len(tests):
        return
    result.leaks = True
    names = oracle.table.unit_names
    result.finding = (
        f"{_factorial.describe(best.hypothesis, names)}: {best.share:.3f} instead of "
        f"{best.share_other:.3f}"
    )
    result.influence = _influence(second, oracle)
    result.witness = _example(oracle, deck, best.hypothesis, rng)


def _paired(
    oracle: Oracle,
    deck: Deck,
    result: StochasticResult,
    support: str,
    n_draws: int,
    level: float,
    rng: np.random.Generator,
) -> None:
    n_pairs = int(np.clip(n_draws // 320, 1, _MAX_PAIRS))
    pairs = _repeated.propose_pairs(oracle, deck, n_pairs, support, rng)
    first = max(n_draws // (8 * n_pairs), 20)
    second = max(n_draws // (8 * 12), 20)
    pairs = _repeated.narrow(oracle, pairs, ((first, 12), (second, _N_PAIRS)))
    n_last = max(n_draws // (4 * _N_PAIRS), 20)
    result.n_tests += len(pairs)
    families = 1 if support == "empirical" else 2
    for pair in pairs:
        if oracle.out_of_time:
            return
        outcome = _repeated.judge_pair(oracle, pair, n_last)
        corrected = families * len(pairs) * outcome.p_value
        result.p_value = min(result.p_value, 1.0, corrected)
        if outcome.p_value <= level / len(pairs):
            assert pair.mask is not None
            result.leaks = True
            result.finding = (
                f"one mask has probability {outcome.share:.3f} for a row and "
                f"{outcome.share_other:.3f} for another that agrees on all it reveals"
            )
            result.witness = make_witness(
                oracle,
                pair.source,
                pair.other,
                pair.mask,
                pair.mask,
                "empirical" if support == "empirical" else "product",
                outcome.share,
                outcome.share_other,
            )
            return


def _influence(sample: _factorial.Sample, oracle: Oracle) -> dict[str, float]:
    names = oracle.table.unit_names
    shift: dict[str, float] = {}
    for h in _factorial.screen(sample, oracle.table, 20):
        if h.contrast.kind == "agrees with" or h.z < 4.0:
            continue
        t = _factorial.judge(sample, h)
        name = names[h.contrast.unit]
        shift[name] = max(shift.get(name, 0.0), abs(t.share - t.share_other))
    return dict(sorted(shift.items(), key=lambda item: -item[1]))


def _example(
    oracle: Oracle, deck: Deck, hypothesis: _factorial.Hypothesis, rng: np.random.Generator
) -> Witness | None:
    """A pair of rows that shows a pooled finding: only the unit in question differs."""
    table = oracle.table
    unit = hypothesis.contrast.unit
    rows = rng.integers(deck.n_rows, size=40)
    rank = _factorial.ranks(deck.unit_codes)[:, unit]
    pairs = []
    for row in rows:
        far = np.argsort(-abs(rank - rank[row]), kind="stable")[: max(1, deck.n_rows // 4)]
        donor = rng.choice(far)
        source = np.full(table.n_columns, row, dtype=np.intp)
        pairs.append(_repeated.Pair(source, _swap(table.unit_of, source, unit, donor)))
    loud = _repeated.narrow(oracle, pairs, ((200, 8), (1000, 1)))
    if not loud:
        return None
    seen = _repeated.judge_pair(oracle, loud[0], 4000)
    mask: BoolArray = np.array(loud[0].mask)
    return make_witness(
        oracle, loud[0].source, loud[0].other, mask, mask, "product", seen.share, seen.share_other
    )


def _swap(unit_of: IntArray, source: IntArray, unit: int, donor: int) -> IntArray:
    return np.where(unit_of == unit, donor, source).astype(np.intp)
