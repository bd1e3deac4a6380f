"""The report of an audit, and its summary in words."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import beta

from suwr._utils.deprecation import warn_deprecated
from suwr._utils.text import printable
from suwr.audit.gaps import PredictiveGap, PredictiveGaps
from suwr.audit.witness import Witness

LEAKS = "leaks"
NO_LEAK_FOUND = "no leak found"
LEAK_FREE = "leak-free by construction"

_MAX_LISTED = 8


def detectable_rate(n_probes: int, confidence: float = 0.95) -> float:
    """Smallest leak rate that ``n_probes`` uniform probes detect with this probability.

    The leak rate is the probability that a uniform probe changes the mask.

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
    """Result of `suwr.audit.audit` and `suwr.audit.audit_masks`.

    Attributes
    ----------
    verdict : {"leaks", "no leak found", "leak-free by construction"}
    leaks : bool
        Whether the verdict is "leaks".
    witness : Witness or None
        Two rows that prove the leak or, for a stochastic selector, illustrate it.
    evidence : {"proof", "test", "gaps", "none"}
        Basis of the verdict "leaks": a witness, a statistical test, or predictive gaps.
    exact : bool
        Whether all possible rows were queried, so that the verdict is conclusive.
    support : {"empirical", "product", "masks only"}
        Whether probes were observed rows or combinations of observed values.
    selector : str
        Name of the selector.
    stochastic : bool
        Whether the selector draws its masks at random.
    n_rows, n_columns : int
        Shape of the audited data.
    n_probes : int
        Number of counterfactual probes.
    n_uniform, n_uniform_changed : int
        Number of uniform probes, and of those that changed the mask.
    detectable_rate : float
        Smallest leak rate that the uniform probes detect with 95 % probability, where the leak
        rate is the probability that a uniform probe changes the mask.
    rate : float
        Share of the uniform probes that changed the mask; NaN without uniform probes.
    detectable_shift : float or None
        Smallest shift of a mask probability that the statistical test detects with 95 % power.
    mean_features : float
        Mean number of revealed columns.
    p_value : float or None
        Corrected p-value of the statistical tests of a stochastic selector.
    finding : str
        Description of the significant test result.
    influence : dict
        For each unit, how often resampling it alone, while hidden, changed the mask (stochastic
        selectors: the shift of a probability), in decreasing order.
    exact_bits : dict
        If all possible rows were queried: information of the selection about the hidden
        "features" and the "label" beyond the revealed values.
    gaps : PredictiveGaps or None
    ranking : list of tuple
        Hidden units and their leaked bits or, if these were not measured, their influence.
    cautions : list of str
        Caveats about the verdict.
    n_calls, n_queries : int
        Number of calls of the selector, and of rows in them.
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
    gaps: PredictiveGaps | None = None
    cautions: list[str] = field(default_factory=list)
    n_calls: int = 0
    n_queries: int = 0
    seconds: float = 0.0
    false_alarm_rate: float = 0.01

    @property
    def leaks(self) -> bool:
        """Whether the verdict is "leaks"."""
        return self.verdict == LEAKS

    @property
    def detectable_rate(self) -> float:
        """Smallest leak rate that the uniform probes detect with 95 % probability."""
        return detectable_rate(self.n_uniform)

    @property
    def rate(self) -> float:
        """Share of the uniform probes that changed the mask."""
        return self.n_uniform_changed / self.n_uniform if self.n_uniform else float("nan")

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """Hidden units and their leaked bits or, if these were not measured, their influence."""
        if self.gaps is not None and self.gaps.features:
            return [(gap.target, gap.leak) for gap in self.gaps.features]
        return list(self.influence.items())

    @property
    def n_asked(self) -> int:
        """Deprecated name of ``n_queries``."""
        warn_deprecated("AuditReport.n_asked", "Use AuditReport.n_queries", removal="0.3")
        return self.n_queries

    def summary(self) -> str:
        """The report as text."""
        return _summarize(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable dict."""
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
            "cost": {"calls": self.n_calls, "rows": self.n_queries, "seconds": self.seconds},
        }

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON, with the content of `to_dict`."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def plot(self, ax: Any = None) -> Any:
        """Plot the report on matplotlib axes; see `suwr.plots.plot_audit`."""
        from suwr.plots.audit import plot_audit

        return plot_audit(self, ax)

    def __str__(self) -> str:
        return self.summary()


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _summarize(report: AuditReport) -> str:
    parts = [_headline(report), *_describe_witness(report), *_describe_probes(report)]
    parts += [*_describe_influence(report), *_describe_gaps(report), _cost(report)]
    if report.cautions:
        parts.append("Caveats:\n" + "\n".join(f"- {caution}" for caution in report.cautions))
    return "\n\n".join(parts)


def _headline(report: AuditReport) -> str:
    kind = "stochastic selector" if report.stochastic else "deterministic selector"
    if report.support == "masks only":
        kind = "masks only"
    return (
        f"Audit of {printable(report.selector)}: {report.verdict.upper()}\n"
        f"{report.n_rows:,} rows, {report.n_columns} columns, {report.mean_features:.1f} columns "
        f"revealed on average; {kind}."
    )


def _describe_witness(report: AuditReport) -> list[str]:
    w = report.witness
    if w is None:
        return []
    revealed = (
        ", ".join(map(printable, w.revealed[:6])) + (", …" if len(w.revealed) > 6 else "")
        or "nothing"
    )
    if w.probability is not None and w.probability_other is not None:
        about = "" if report.evidence == "proof" else "about "
        text = (
            f"Witness: these rows agree on all values that the mask reveals ({revealed}), but the "
            f"mask has probability {about}{w.probability:.4g} for x and {about}"
            f"{w.probability_other:.4g} for x'. Hidden values are in brackets."
        )
    else:
        text = (
            f"Proof: these rows agree on all values that are revealed for x ({revealed}), but "
            "their masks differ. Hidden values are in brackets."
        )
    support = (
        "Both rows are in the data (empirical support)."
        if w.support == "empirical"
        else "The hidden values of x' come from other rows of the data (product support)."
    )
    return [f"{text}\n\n{w.table()}\n\n{support}"]


def _describe_probes(report: AuditReport) -> list[str]:
    if report.support == "masks only":
        return [
            "The selector could not be queried, because only rows and masks were given. The "
            "verdict is based on predictive gaps alone."
        ]
    parts = []
    if report.exact:
        conclusive = "" if report.leaks else "; the verdict is conclusive on this support"
        parts.append(f"All possible rows were queried{conclusive}.")
        amounts = " and ".join(
            f"{value:.3f} bits about the {'label' if name == 'label' else 'hidden features'}"
            for name, value in report.exact_bits.items()
        )
        parts.append(f"Given the revealed values, the selection contains exactly {amounts}.")
    if report.n_uniform and report.leaks:
        parts.append(
            f"Resampling the hidden values changed the selection in {100 * report.rate:.2g} % of "
            f"{report.n_uniform:,} uniform probes."
        )
    if report.n_uniform and not report.leaks:
        parts.append(
            f"No leak in {report.n_probes:,} counterfactual probes ({report.support} support), "
            f"{report.n_uniform:,} of them uniform. A leak that changes the mask in at least "
            f"{100 * report.detectable_rate:.2g} % of uniform probes would have been detected "
            "with 95 % probability."
        )
    if report.finding:
        parts.append(
            f"Significant on new draws: {printable(report.finding)} (p = {report.p_value:.2g})."
        )
    elif report.detectable_shift is not None and not report.leaks:
        parts.append(
            f"No significant difference in {report.n_probes:,} drawn masks. A shift of "
            f"{report.detectable_shift:.3f} in a mask probability, between the lower and upper "
            "half of the values of a hidden unit, would have been detected with 95 % probability "
            f"(false-alarm rate {100 * report.false_alarm_rate:.2g} %)."
        )
    return ["\n".join(parts)] if parts else []


def _describe_influence(report: AuditReport) -> list[str]:
    if not report.influence:
        return []
    scale, unit = (1, "") if report.stochastic else (100, " %")
    effect = "shift of a mask probability" if report.stochastic else "changed masks"
    top = list(report.influence.items())[:5]
    listed = ", ".join(f"`{printable(name)}` {scale * value:.2g}{unit}" for name, value in top)
    return [f"Effect of resampling a single hidden unit ({effect}): {listed}."]


def _describe_gaps(report: AuditReport) -> list[str]:
    gaps = report.gaps
    if gaps is None:
        return []
    level = f"{100 * gaps.confidence:.3g} % CI"
    lines = []
    if gaps.label is not None:
        g = gaps.label
        lines.append(
            f"Label leakage: {g.leak:.2f} bits ({level} {g.low:.2f} to {g.high:.2f}), "
            f"{'significant' if g.significant else 'not significant'}. Information about the "
            f"label: revealed values {g.revealed:.2f} bits (EVAL-X), mask alone "
            f"{g.mask_alone:.2f}, both {g.both:.2f}."
        )
    significant = [g for g in gaps.features if g.significant]
    lines += [_feature_line(g, level) for g in significant[:_MAX_LISTED]]
    if len(significant) > _MAX_LISTED:
        lines.append(f"… and {len(significant) - _MAX_LISTED} more hidden features.")
    if not significant and gaps.features:
        lines.append("Feature leakage: no significant gap for any hidden feature.")
    return ["\n".join(lines)] if lines else []


def _feature_line(g: PredictiveGap, level: str) -> str:
    return (
        f"Feature leakage: the selection contains {g.leak:.2f} bits about `{printable(g.target)}`, "
        f"which is not among the selected features ({level} {g.low:.2f} to {g.high:.2f}; hidden in "
        f"{g.n_rows:,} rows)."
    )


def _cost(report: AuditReport) -> str:
    if report.support == "masks only":
        return f"Cost: {report.seconds:.1f} s."
    return (
        f"Cost: {report.n_queries:,} rows in {report.n_calls:,} calls of the selector, "
        f"{report.seconds:.1f} s."
    )
