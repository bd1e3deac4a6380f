"""The report of an audit with its witness, and its summary in words.

A sentence about the leaks that would have been detected is written only where this power is known:
for uniform probes of reproducible masks, and for independent draws.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from suwr._utils.text import printable
from suwr._utils.validation import view
from suwr.auditing.gaps import PredictiveGap, PredictiveGaps
from suwr.selector import BoolArray

LEAKS = "leaks"
LEAKS_IF_INDEPENDENT = "leaks if columns vary independently"
NO_LEAK_FOUND = "no leak found"
LEAK_FREE = "leak-free by construction"
_MAX_NAMES = 6
_MAX_LISTED = 8
# What the report contains as JSON, besides what is nested or computed.
_FIELDS = (
    *("verdict", "leaks", "leaks_if_independent", "assumed_independent", "evidence", "exact"),
    *("support", "dependent", "share_determined", "selector", "stochastic", "n_rows", "n_columns"),
    *("mean_features", "influence", "exact_bits", "cautions", "assumptions"),
)
_COUNTS = ("uniform", "uniform_changed", "draws", "batches", "training_rows")
_POWER = (
    *("detectable_rate", "detectable_shift", "detectable_shift_individually"),
    *("detectable_difference", "reproducible", "independent_draws", "batch_dependent"),
    *("p_value", "finding", "false_alarm_rate"),
)


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


def rate_interval(hits: int, n_probes: int) -> tuple[float, float]:
    """Exact (Clopper–Pearson) 95 % confidence interval of a rate.

    Examples
    --------
    >>> [round(bound, 3) for bound in rate_interval(0, 100)]
    [0.0, 0.036]
    """
    if n_probes == 0:
        return 0.0, 1.0
    interval = binomtest(hits, n_probes).proportion_ci()
    return float(interval.low), float(interval.high)


def _listed(names: Sequence[str], most: int = _MAX_NAMES, quote: str = "`") -> str:
    shown = [f"{quote}{printable(name)}{quote}" for name in names[:most]]
    return ", ".join(shown) + (", …" if len(names) > most else "")


def _json_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@dataclass(frozen=True)
class Witness:
    """Two rows that agree on all revealed values but are treated differently.

    Attributes
    ----------
    x, x_other : array of shape (n_columns,)
        The rows; ``x[mask]`` and ``x_other[mask]`` are equal.
    mask, mask_other : bool array of shape (n_columns,)
        Masks that the selector returns for them. For a stochastic selector, both are the mask
        whose probability differs.
    row, row_other : int or None
        Positions of ``x`` and ``x_other`` in the audited data; None for a row that is not among
        them but combines values of several.
    columns : list of str
    rows : array or data frame of shape (2, n_columns)
        Both rows in the container of the audited data, as the selector accepts them.
    probability, probability_other : float or None
        ζ(mask | x) and ζ(mask | x_other) of a stochastic selector.

    Examples
    --------
    >>> import numpy as np
    >>> import suwr
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> witness = suwr.audit(lambda X: X > X[:, ::-1], X, gaps=False, random_state=0).witness
    >>> bool((witness.x[witness.mask] == witness.x_other[witness.mask]).all())
    True
    >>> witness.mask.tolist() == witness.mask_other.tolist()
    False
    """

    x: NDArray[Any]
    x_other: NDArray[Any]
    mask: BoolArray
    mask_other: BoolArray
    row: int | None
    row_other: int | None
    columns: list[str]
    rows: Any
    probability: float | None = None
    probability_other: float | None = None

    @property
    def support(self) -> str:
        """Either "empirical" if both rows were observed, or "product"."""
        return "product" if self.row is None or self.row_other is None else "empirical"

    @property
    def revealed(self) -> list[str]:
        """Names of the columns that ``mask`` reveals."""
        return [name for name, shown in zip(self.columns, self.mask, strict=True) if shown]

    @property
    def changed(self) -> list[str]:
        """Names of the hidden columns in which the two rows differ."""
        same = [_equal(a, b) for a, b in zip(self.x, self.x_other, strict=True)]
        return [name for name, equal in zip(self.columns, same, strict=True) if not equal]

    def table(self, max_columns: int = 8) -> str:
        """Format both rows as a text table, with hidden values in brackets.

        Parameters
        ----------
        max_columns : int
            Maximum number of columns; those that differ, or are revealed in one row only, take
            precedence.
        """
        changed = np.isin(self.columns, self.changed)
        priority = 4 * changed + 2 * (self.mask ^ self.mask_other) + self.mask
        order = np.argsort(-priority, kind="stable")
        chosen = sorted([int(j) for j in order if priority[j]][:max_columns])
        rows = [["", *(printable(self.columns[j]) for j in chosen), "reveals"]]
        for name, x, mask in (("x", self.x, self.mask), ("x'", self.x_other, self.mask_other)):
            shown = [column for column, m in zip(self.columns, mask, strict=True) if m]
            number = f" ({len(shown)})" if len(shown) > _MAX_NAMES else ""
            cells = [_cell(x[j]) if mask[j] else f"[{_cell(x[j])}]" for j in chosen]
            rows.append([name, *cells, _listed(shown, quote="") + number or "nothing"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(v.rjust(w) for v, w in zip(row, widths, strict=True)) for row in rows]
        n_more = len(self.columns) - len(chosen)
        if n_more:
            all_shown = set(self.changed) <= {self.columns[j] for j in chosen}
            lines.append(f"({n_more} more columns{', equal in both rows' if all_shown else ''})")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The witness as a JSON-serializable dict."""
        rows = {name: [_json_value(v) for v in getattr(self, name)] for name in ("x", "x_other")}
        masks = {"mask": self.mask.tolist(), "mask_other": self.mask_other.tolist()}
        names = ("columns", "row", "row_other", "support", "probability", "probability_other")
        return rows | masks | {name: getattr(self, name) for name in names}


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else printable(value)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)
    except TypeError:  # pandas.NA has no truth value
        return False


@dataclass
class AuditReport:
    """Result of `suwr.auditing.audit` and `suwr.auditing.audit_masks`.

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

    selector: str
    stochastic: bool
    n_rows: int
    n_columns: int
    mean_features: float
    verdict: str = NO_LEAK_FOUND
    witness: Witness | None = None
    evidence: str = "none"
    exact: bool = False
    support: str = "product"
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
        names = _listed(self.assumed_independent)
        rows = "Rows that combine observed values, such as x'," if self.evidence == "test" else "x'"
        verb = "are" if self.evidence == "test" else "is"
        return (
            f"{rows} {verb} possible: {names} can take the values of x' beside its others. No row "
            "of the data shows this; support='product' states it for all columns."
        )

    def summary(self) -> str:
        """The report as text."""
        parts = [_headline(self), *_describe_witness(self), *_describe_probes(self)]
        parts += [*_describe_influence(self), *_describe_gaps(self), _cost(self)]
        for title, items in (("Assumptions", self.assumptions), ("Caveats", self.cautions)):
            if items:
                parts.append("\n- ".join([f"{title}:", *items]))
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable dict."""
        probes = {
            "n": self.n_probes,
            "rate": self.rate if self.n_uniform else None,
            "rate_interval": list(rate_interval(self.n_uniform_changed, self.n_uniform)),
            "untested_units": self.n_untested,
            **{name: getattr(self, f"n_{name}") for name in _COUNTS},
            **{name: getattr(self, name) for name in _POWER},
        }
        return {
            "format": "suwr-audit",
            "version": 1,
            **{name: getattr(self, name) for name in _FIELDS},
            "witness": None if self.witness is None else self.witness.to_dict(),
            "probes": probes,
            "gaps": None if self.gaps is None else asdict(self.gaps),
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


def _headline(report: AuditReport) -> str:
    kind = "stochastic selector" if report.stochastic else "deterministic selector"
    if report.support == "masks only":
        kind = "masks only"
    columns = _listed(report.assumed_independent, _MAX_LISTED)
    return (
        f"Audit of {printable(report.selector)}: {report.verdict.upper()}"
        f"{f' ({columns})' if columns else ''}\n"
        f"{report.n_rows:,} rows, {report.n_columns} columns, {report.mean_features:.1f} columns "
        f"revealed on average; {kind}."
    )


def _describe_witness(report: AuditReport) -> list[str]:
    w = report.witness
    if w is None:
        return []
    revealed = _listed(w.revealed, quote="") or "nothing"
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
    support = "Both rows are in the data (empirical support)."
    if w.support == "product":
        support = "The hidden values of x' come from other rows of the data (product support). " + (
            "By support='product', such rows are possible."
            if report.leaks
            else "Such a row is not among the data. This is a leak if it is possible."
        )
    return [f"{text}\n\n{w.table()}\n\n{support}"]


def _describe_probes(report: AuditReport) -> list[str]:
    if report.support == "masks only":
        return [
            "The selector could not be queried, because only rows and masks were given. The "
            "verdict is based on predictive gaps alone."
        ]
    parts = [*_describe_exact(report), *_describe_dependence(report)]
    found = report.leaks or report.leaks_if_independent
    if report.n_uniform and found:
        parts.append(
            f"Resampling the hidden values changed the selection in {100 * report.rate:.2g} % of "
            f"{report.n_uniform:,} uniform probes."
        )
    if report.finding and report.evidence == "test":
        finding = printable(report.finding)
        parts.append(f"Significant on new draws: {finding} (p = {report.p_value:.2g}).")
    elif report.finding:
        parts.append(f"Finding: {report.finding}.")
    elif not found and report.stochastic:
        parts += [*_describe_stated_probabilities(report), *_describe_draws(report)]
    elif not found:
        parts += [*_describe_uniform_probes(report), *_describe_draws(report)]
    return ["\n".join(parts)] if parts else []


def _describe_exact(report: AuditReport) -> list[str]:
    if not report.exact:
        return []
    conclusive = "; the verdict is conclusive on this support"
    if report.n_draws:
        conclusive = "; the stated probabilities do not leak"
    elif report.leaks or report.leaks_if_independent:
        conclusive = ""
    rows = "combinations of observed values" if report.support == "product" else "possible rows"
    amounts = " and ".join(
        f"{value:.3f} bits about the {'label' if name == 'label' else 'hidden features'}"
        for name, value in report.exact_bits.items()
    )
    bits = f"Given the revealed values, the selection contains exactly {amounts}."
    return [f"All {rows} were queried{conclusive}.", *([bits] if amounts else [])]


def _describe_dependence(report: AuditReport) -> list[str]:
    parts = []
    if report.dependent:
        groups = "; ".join(_listed(names) for names in report.dependent[:_MAX_LISTED])
        more = "; …" if len(report.dependent) > _MAX_LISTED else ""
        parts.append(
            "Columns that determine each other in the data were resampled together: "
            f"{groups}{more}."
        )
    if report.share_determined and not report.exact:
        parts.append(
            f"{100 * report.share_determined:.3g} % of the hidden values were not resampled, since "
            "the revealed values determine them in the data."
        )
    return parts


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
    listed = ", ".join(
        f"`{printable(name)}` {scale * value:.2g}{unit}"
        for name, value in list(report.influence.items())[:5]
    )
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
