"""The report of an audit, and its summary in words."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import beta

from suwr._utils.deprecation import warn_deprecated
from suwr._utils.text import printable
from suwr.audit.gaps import PredictiveGaps
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

    @property
    def n_asked(self) -> int:
        """Deprecated name of ``n_queries``."""
        warn_deprecated("AuditReport.n_asked", "Use AuditReport.n_queries", removal="0.3")
        return self.n_queries

    def summary(self) -> str:
        """The report as text."""
        from suwr.audit.summary import summarize

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
        from suwr.plots.audit import plot_audit

        return plot_audit(self, ax)

    def __str__(self) -> str:
        return self.summary()


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
