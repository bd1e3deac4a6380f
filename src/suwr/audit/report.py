"""The report of an audit, and its summary in words.

A sentence about the leaks that would have been detected is written only where this power is known:
for uniform probes of reproducible masks, and for independent draws.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import beta

from suwr._utils.text import printable
from suwr._utils.views import view
from suwr.audit.gaps import PredictiveGap, PredictiveGaps
from suwr.audit.witness import Witness

LEAKS = "leaks"
LEAKS_IF_INDEPENDENT = "leaks if columns vary independently"
NO_LEAK_FOUND = "no leak found"
LEAK_FREE = "leak-free by construction"
_MAX_NAMES = 6


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
    verdict : {"leaks", "leaks if columns vary independently", "no leak found", \
            "leak-free by construction"}
        A leak concerns possible rows. It is unconditional if it was found among observed rows, or
        if ``support="product"`` states that all combinations of values are possible.
    leaks : bool
        Whether the verdict is "leaks".
    leaks_if_independent : bool
        Whether the verdict is "leaks if columns vary independently".
    assumed_independent : list of str
        For that verdict, the hidden columns in which the second row of the witness differs from
        the first: whether there is a leak depends on whether they can take these values beside
        the other values of the row.
    witness : Witness or None
        Two rows that prove the leak or, for a stochastic selector, illustrate it.
    evidence : {"proof", "test", "gaps", "combined rows", "none"}
        Basis of the verdict: a witness, a statistical test, predictive gaps, or a witness of which
        a row combines values of several and may be impossible.
    exact : bool
        Whether all possible rows were queried. The verdict is then conclusive for a deterministic
        selector, and for the probabilities that a stochastic one states.
    support : {"empirical", "product", "masks only"}
        Whether probes were observed rows or combinations of observed values; if there is a leak,
        those that show it.
    dependent : list of list of str
        Units that determine each other in all rows of the data and were resampled together.
    share_determined : float
        Share of the hidden units of the rows that the revealed ones determine in the data, and
        that were therefore not resampled.
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
        rate is the probability that a uniform probe changes the mask. 1 if this was not measured:
        without uniform probes, for a stochastic selector, or if masks were not reproducible.
    rate : float
        Share of the uniform probes that changed the mask; NaN without uniform probes.
    detectable_shift : float or None
        Smallest shift of a mask probability that the statistical test detects with 95 % power, if
        the shift is the same for all rows and the draws are independent.
    detectable_shift_individually : float or None
        The same for masks drawn in calls of one row.
    detectable_difference : float or None
        Smallest difference (root mean square over rows) between the stated and the actual
        probability of a mask that the goodness-of-fit test detects with 95 % power.
    n_draws : int
        Number of masks drawn by the statistical tests.
    n_untested : int
        Number of units that the test to which ``detectable_shift`` refers omitted, to save time.
    n_batches : int
        Number of fixed batches whose hidden values were resampled.
    n_training_rows : int
        Number of queried rows that the selector was fitted on.
    reproducible : bool
        Whether identical queries to a deterministic selector returned identical masks throughout.
    independent_draws : bool
        Whether masks that a stochastic selector draws in one call appear to be independent.
    batch_dependent : bool
        Whether the mask of a row depends on the other rows of the call.
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
    assumptions : list of str
        What the verdict presupposes and queries cannot establish.
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
    detectable_shift_individually: float | None = None
    detectable_difference: float | None = None
    n_draws: int = 0
    n_untested: int = 0
    dependent: list[list[str]] = field(default_factory=list)
    share_determined: float = 0.0
    n_batches: int = 0
    n_training_rows: int = 0
    reproducible: bool = True
    independent_draws: bool = True
    batch_dependent: bool = False
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
    def leaks_if_independent(self) -> bool:
        """Whether the verdict is "leaks if columns vary independently"."""
        return self.verdict == LEAKS_IF_INDEPENDENT

    @property
    def assumed_independent(self) -> list[str]:
        """Hidden columns whose values in the witness are assumed to be possible."""
        return self.witness.changed if self.leaks_if_independent and self.witness else []

    @property
    def detectable_rate(self) -> float:
        """Smallest leak rate that the uniform probes detect with 95 % probability."""
        measured = self.reproducible and not self.stochastic
        return detectable_rate(self.n_uniform if measured else 0)

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
    def assumptions(self) -> list[str]:
        """What the verdict presupposes and queries cannot establish."""
        if self.leaks or self.support == "masks only":
            return []
        if self.leaks_if_independent:
            return [self._assumption_of_independence]
        assumptions = [
            f"The selector behaves in use as in the {self.n_queries:,} rows of this audit. Queries "
            "cannot detect a selector that begins to leak after more of them, or that recognises "
            "and treats differently the queries of an audit."
        ]
        if not self.n_training_rows:
            assumptions.append(
                "Rows outside of the audited data are treated alike. A selector that leaks only on "
                "the rows it was fitted on is detected only if these are among the audited rows or "
                "passed as training_rows."
            )
        return assumptions

    @property
    def _assumption_of_independence(self) -> str:
        if not self.assumed_independent:
            return "The hidden columns can vary independently of the others."
        shown = [f"`{printable(name)}`" for name in self.assumed_independent[:_MAX_NAMES]]
        n_more = len(self.assumed_independent) - len(shown)
        names = ", ".join(shown) + (f" and {n_more} more" if n_more else "")
        rows = "Rows that combine observed values, such as x'," if self.evidence == "test" else "x'"
        verb = "are" if self.evidence == "test" else "is"
        return (
            f"{rows} {verb} possible: {names} can take the values of x' beside its others. No row "
            "of the data shows this; support='product' states it for all columns."
        )

    def summary(self) -> str:
        """The report as text."""

        return summarize(self)

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
            "leaks_if_independent": self.leaks_if_independent,
            "assumed_independent": self.assumed_independent,
            "evidence": self.evidence,
            "exact": self.exact,
            "support": self.support,
            "dependent": self.dependent,
            "share_determined": self.share_determined,
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
                "detectable_shift_individually": _finite(self.detectable_shift_individually),
                "detectable_difference": _finite(self.detectable_difference),
                "draws": self.n_draws,
                "untested_units": self.n_untested,
                "batches": self.n_batches,
                "training_rows": self.n_training_rows,
                "reproducible": self.reproducible,
                "independent_draws": self.independent_draws,
                "batch_dependent": self.batch_dependent,
                "p_value": _finite(self.p_value),
                "finding": self.finding,
                "false_alarm_rate": self.false_alarm_rate,
            },
            "influence": self.influence,
            "exact_bits": self.exact_bits,
            "gaps": gaps,
            "cautions": self.cautions,
            "assumptions": self.assumptions,
            "cost": {"calls": self.n_calls, "rows": self.n_queries, "seconds": self.seconds},
        }

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON, with the content of `to_dict`."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def plot(self, ax: Any = None) -> Any:
        """Plot the report on matplotlib axes; see `suwr.plots.plot_audit`."""
        return view("plots:plot_audit", self, ax)

    def __str__(self) -> str:
        return self.summary()


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


_MAX_LISTED = 8


def summarize(report: AuditReport) -> str:
    """The text of `AuditReport.summary`."""
    parts = [_headline(report), *_describe_witness(report), *_describe_probes(report)]
    parts += [*_describe_influence(report), *_describe_gaps(report), _cost(report)]
    if report.assumptions:
        parts.append("Assumptions:\n" + "\n".join(f"- {text}" for text in report.assumptions))
    if report.cautions:
        parts.append("Caveats:\n" + "\n".join(f"- {caution}" for caution in report.cautions))
    return "\n\n".join(parts)


def _headline(report: AuditReport) -> str:
    kind = "stochastic selector" if report.stochastic else "deterministic selector"
    if report.support == "masks only":
        kind = "masks only"
    columns = [f"`{printable(name)}`" for name in report.assumed_independent]
    if len(columns) > _MAX_LISTED:
        columns = [*columns[: _MAX_LISTED - 1], "…"]
    which = f" ({', '.join(columns)})" if columns else ""
    return (
        f"Audit of {printable(report.selector)}: {report.verdict.upper()}{which}\n"
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
        about = "about " if report.evidence == "test" else ""
        text = (
            f"Witness: these rows agree on all values that the mask reveals ({revealed}), but the "
            f"mask has probability {about}{w.probability:.4g} for x and {about}"
            f"{w.probability_other:.4g} for x'. Hidden values are in brackets."
        )
    else:
        text = (
            f"{'Proof' if report.evidence == 'proof' else 'Witness'}: these rows agree on all "
            f"values that are revealed for x ({revealed}), but their masks differ. Hidden values "
            "are in brackets."
        )
    return [f"{text}\n\n{w.table()}\n\n{_describe_support(report, w)}"]


def _describe_support(report: AuditReport, w: Witness) -> str:
    if w.support == "empirical":
        return "Both rows are in the data (empirical support)."
    combined = "The hidden values of x' come from other rows of the data (product support)."
    if report.leaks:
        return f"{combined} By support='product', such rows are possible."
    return f"{combined} Such a row is not among the data. This is a leak if it is possible."


def _describe_probes(report: AuditReport) -> list[str]:
    if report.support == "masks only":
        return [
            "The selector could not be queried, because only rows and masks were given. The "
            "verdict is based on predictive gaps alone."
        ]
    parts = []
    if report.exact:
        found = report.leaks or report.leaks_if_independent
        conclusive = "" if found else "; the verdict is conclusive on this support"
        if report.n_draws:
            conclusive = "; the stated probabilities do not leak"
        rows = "combinations of observed values" if report.support == "product" else "possible rows"
        parts.append(f"All {rows} were queried{conclusive}.")
        amounts = " and ".join(
            f"{value:.3f} bits about the {'label' if name == 'label' else 'hidden features'}"
            for name, value in report.exact_bits.items()
        )
        parts.append(f"Given the revealed values, the selection contains exactly {amounts}.")
    parts += _describe_dependence(report)
    if report.n_uniform and (report.leaks or report.leaks_if_independent):
        parts.append(
            f"Resampling the hidden values changed the selection in {100 * report.rate:.2g} % of "
            f"{report.n_uniform:,} uniform probes."
        )
    if report.finding:
        parts.append(_describe_finding(report))
    elif report.leaks or report.leaks_if_independent:
        pass
    elif report.stochastic:
        parts += [*_describe_stated_probabilities(report), *_describe_draws(report)]
    else:
        parts += [*_describe_uniform_probes(report), *_describe_draws(report)]
    return ["\n".join(parts)] if parts else []


def _describe_dependence(report: AuditReport) -> list[str]:
    parts = []
    if report.dependent:
        groups = [", ".join(f"`{printable(n)}`" for n in names[:6]) for names in report.dependent]
        groups = [
            f"{text}, …" if len(names) > 6 else text
            for text, names in zip(groups, report.dependent, strict=True)
        ]
        listed = "; ".join(groups[:_MAX_LISTED]) + ("; …" if len(groups) > _MAX_LISTED else "")
        parts.append(
            f"Columns that determine each other in the data were resampled together: {listed}."
        )
    if report.share_determined and not report.exact:
        parts.append(
            f"{100 * report.share_determined:.3g} % of the hidden values were not resampled, since "
            "the revealed values determine them in the data."
        )
    return parts


def _describe_finding(report: AuditReport) -> str:
    if report.evidence == "test":
        return f"Significant on new draws: {printable(report.finding)} (p = {report.p_value:.2g})."
    return f"Finding: {report.finding}."


def _describe_uniform_probes(report: AuditReport) -> list[str]:
    """Probes of a deterministic selector; their power is known only if masks are reproducible."""
    parts = []
    if report.n_uniform and not report.reproducible:
        parts.append(
            f"No leak was confirmed in {report.n_probes - report.n_draws:,} counterfactual probes, "
            "but masks were not reproducible. The size of leak that would have been detected is "
            "unknown."
        )
    elif report.n_uniform:
        single = " in calls of one row" if report.batch_dependent else ""
        parts.append(
            f"No leak in {report.n_probes:,} counterfactual probes{single} ({report.support} "
            f"support), {report.n_uniform:,} of them uniform. If the mask is a function of the row "
            "alone, a leak that changes the mask in at least "
            f"{100 * report.detectable_rate:.2g} % of uniform probes would have been detected "
            "with 95 % probability."
        )
    if report.n_batches:
        parts.append(
            f"No leak in {report.n_batches} fixed batches whose hidden values were resampled; the "
            "size of leak that this detects is unknown."
        )
    return parts


def _describe_stated_probabilities(report: AuditReport) -> list[str]:
    parts = []
    if report.n_uniform:
        parts.append(
            "The stated probabilities did not change in "
            f"{report.n_probes - report.n_draws:,} counterfactual probes ({report.support} "
            "support). This is no evidence about the samples, which are tested separately."
        )
    if report.detectable_difference is not None:
        parts.append(
            "Samples were compared with the stated probabilities: a difference of "
            f"{report.detectable_difference:.3f} in the probability of the most frequent mask "
            "(root mean square over rows) would have been noticed with 95 % probability."
        )
    return parts


def _describe_draws(report: AuditReport) -> list[str]:
    if report.detectable_shift is None:
        return []
    if not report.independent_draws or not report.reproducible:
        return [
            f"No significant difference in {report.n_draws:,} drawn masks. The size of leak that "
            "would have been detected is unknown, since the draws are not independent."
        ]
    alone = ""
    if report.detectable_shift_individually is not None:
        alone = f", and of {report.detectable_shift_individually:.2f} in calls of one row,"
    which = ""
    if report.dependent:
        which += " that no revealed one is resampled with"
    if report.n_untested:
        which += f" other than {report.n_untested:,} random ones that were not tested"
    return [
        f"No significant difference in {report.n_draws:,} drawn masks. A shift of "
        f"{report.detectable_shift:.3f}{alone} in the probability of a mask or of "
        "revealing a unit, the same for all rows, between the lower and upper half of the values "
        f"of a hidden unit{which}, would have been detected with 95 % probability (false-alarm "
        f"rate {100 * report.false_alarm_rate:.2g} %). The power for other shifts is unknown."
    ]


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
    if gaps.significant and report.leaks_if_independent:
        lines.append(
            "The significant gaps concern observed rows only. They support the finding without an "
            "assumption about possible rows, as far as their models are unbiased."
        )
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
