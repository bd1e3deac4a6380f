"""The report of an audit."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from suwr.audit._gaps import Gaps
from suwr.audit._summary import summarize
from suwr.audit._witness import Witness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAKS = "leaks"
NO_LEAK_FOUND = "no leak found"
LEAK_FREE = "leak-free by construction"


def detectable_rate(n_probes: int, confidence: float = 0.95) -> float:
    """Share of (row, redraw) pairs that a leak must touch to be found with this probability.

    Each of ``n_probes`` uniform probes misses a leak of rate r with probability 1 − r.

    Examples
    --------
    >>> round(detectable_rate(6000), 5)
    0.0005
    >>> detectable_rate(0)
    1.0
    """
    return 1.0 if n_probes == 0 else float(1.0 - (1.0 - confidence) ** (1.0 / n_probes))


def rate_interval(hits: int, n_probes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper–Pearson) confidence interval of a rate.

    Examples
    --------
    >>> [round(bound, 3) for bound in rate_interval(0, 100)]
    [0.0, 0.036]
    """
    if n_probes == 0:
        return 0.0, 1.0
    tail = (1.0 - confidence) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n_probes - hits + 1))
    high = 1.0 if hits == n_probes else float(beta.ppf(1 - tail, hits + 1, n_probes - hits))
    return low, high


@dataclass(frozen=True)
class AuditReport:
    """What an audit found. Made by :func:`suwr.audit.audit`.

    Attributes
    ----------
    verdict : {"leaks", "no leak found", "leak-free by construction"}
    leaks : bool
    witness : Witness or None
        Two rows that prove, or for a random selector show, the leak.
    evidence : {"proof", "test", "gaps", "none"}
        What the verdict rests on: two rows, a statistical test, predictive gaps (where nothing
        else could be done), or nothing.
    exact : bool
        Whether all possible rows were examined: then the verdict is final on this support.
    support : {"empirical", "product", "masks only"}
        What the probes were made of: real rows only, or values of other rows put together.
    selector : str
    stochastic : bool
        Whether the selector draws its masks.
    n_rows, n_columns : int
    n_probes : int
        Counterfactual rows that were asked about.
    n_uniform, n_uniform_changed : int
        Those that were drawn blindly, and how many of them changed the mask.
    detectable_rate : float
        Share of (row, redraw) pairs that a leak must touch to be found with 95 % probability.
    detectable_shift : float or None
        For tests by drawing: the shift of a probability that would have been found so.
    mean_features : float
        Mean number of revealed columns.
    p_value : float or None
        Corrected for all tests; for a selector that draws its masks.
    finding : str
        The result of the statistical test, in words.
    influence : dict
        For each unit, how often redrawing it alone, while hidden, changed the mask (or by how
        much it shifted a probability); the strongest first.
    exact_bits : dict
        With all possible rows examined: what the selection tells about the hidden "features" and
        the "label", beyond the revealed values.
    gaps : Gaps or None
        The predictive gaps, in bits.
    cautions : list of str
        What the reader should know before relying on the verdict.
    n_calls, n_asked : int
        Cost: calls of the selector, and rows in them.
    seconds : float
    false_alarm_rate : float

    Examples
    --------
    >>> import numpy as np
    >>> import suwr
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> report = suwr.audit(lambda X: np.ones(X.shape, dtype=bool), X, random_state=0)
    >>> report.verdict, report.leaks
    ('no leak found', False)
    """

    verdict: str
    witness: Witness | None
    evidence: str
    exact: bool
    support: str
    selector: str
    stochastic: bool
    n_rows: int
    n_columns: int
    n_probes: int = 0
    n_uniform: int = 0
    n_uniform_changed: int = 0
    detectable_shift: float | None = None
    mean_features: float = float("nan")
    p_value: float | None = None
    finding: str = ""
    influence: dict[str, float] = field(default_factory=dict)
    exact_bits: dict[str, float] = field(default_factory=dict)
    gaps: Gaps | None = None
    cautions: list[str] = field(default_factory=list)
    n_calls: int = 0
    n_asked: int = 0
    seconds: float = 0.0
    false_alarm_rate: float = 0.01

    @property
    def leaks(self) -> bool:
        """Whether the verdict is "leaks"."""
        return self.verdict == LEAKS

    @property
    def detectable_rate(self) -> float:
        """See the attributes above."""
        return detectable_rate(self.n_uniform)

    @property
    def rate(self) -> float:
        """Share of the blind probes that changed the mask."""
        return self.n_uniform_changed / self.n_uniform if self.n_uniform else float("nan")

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """Hidden units by what the selection tells about them: bits if measured, else influence."""
        if self.gaps is not None and self.gaps.features:
            return [(gap.target, gap.leak) for gap in self.gaps.features]
        return list(self.influence.items())

    def summary(self) -> str:
        """The report in words."""
        return summarize(self)

    def to_dict(self) -> dict[str, Any]:
        """All of the report, in a form that JSON can hold."""
        gaps = None
        if self.gaps is not None:
            label = self.gaps.label
            gaps = {
                "confidence": self.gaps.confidence,
                "label": None if label is None else label.to_dict(),
                "features": [gap.to_dict() for gap in self.gaps.features],
                "n_untested": self.gaps.n_untested,
            }
        low, high = rate_interval(self.n_uniform_changed, self.n_uniform)
        return {
            "format": "suwr-audit",
            "version": 1,
            "verdict": self.verdict,
            "leaks": self.leaks,
            "evidence": self.evidence,
            "exact": self.exact,
            "support": self.support,
            "selector": self.selector,
            "stochastic": self.stochastic,
            "n_rows": self.n_rows,
            "n_columns": self.n_columns,
            "mean_features": _finite(self.mean_features),
            "witness": None if self.witness is None else self.witness.to_dict(),
            "probes": {
                "n": self.n_probes,
                "uniform": self.n_uniform,
                "uniform_changed": self.n_uniform_changed,
                "rate": _finite(self.rate),
                "rate_interval": [low, high],
                "detectable_rate": self.detectable_rate,
                "detectable_shift": _finite(self.detectable_shift),
                "p_value": _finite(self.p_value),
                "finding": self.finding,
                "false_alarm_rate": self.false_alarm_rate,
            },
            "influence": self.influence,
            "exact_bits": self.exact_bits,
            "gaps": gaps,
            "cautions": self.cautions,
            "cost": {"calls": self.n_calls, "rows": self.n_asked, "seconds": self.seconds},
        }

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON; see :meth:`to_dict`."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the report; see :func:`suwr.plots.plot_audit`."""
        from suwr.plots import plot_audit

        return plot_audit(self, ax)

    def __str__(self) -> str:
        return self.summary()


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
