"""Audits of selectors, masks and files: which tests apply, in which order, and the verdict."""

import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from suwr._utils.progress import progress_bars
from suwr._utils.validation import (
    Interval,
    Options,
    check_parameters,
    must_error,
    parameter_error,
)
from suwr.auditing.background import (
    BackgroundData,
    Groups,
    IntArray,
    RowSampler,
    observed_partners,
    reveals_whole_units,
)
from suwr.auditing.gaps import PredictiveGaps, as_classes, predictive_gaps
from suwr.auditing.proofs import (
    Search,
    are_observed,
    exact_verdict,
    finite_rows,
    search_batches,
    unit_influence,
)
from suwr.auditing.queries import (
    Reproducibility,
    SelectorQueries,
    changed_rows,
    check_reproducibility,
)
from suwr.auditing.report import (
    LEAK_FREE,
    LEAKS,
    LEAKS_IF_INDEPENDENT,
    NO_LEAK_FOUND,
    AuditReport,
    Witness,
)
from suwr.auditing.stochastic import DrawnMasks, compare_samples
from suwr.data.encode import TableEncoder
from suwr.data.files import open_table, with_points
from suwr.data.frame import raw_columns
from suwr.data.stored import as_rows
from suwr.data.units import Patches
from suwr.exact import FiniteProblem
from suwr.exceptions import TableError
from suwr.selector import BoolArray, as_masks, as_selector

__all__ = ["AuditProcedure", "audit", "audit_files", "audit_masks", "selector_groups"]

_N_BATCHES = 42
_N_INDIVIDUAL_PROBES = 600
_MISMATCH = "The sampled masks do not follow the probabilities that the selector states."


class AuditProcedure:
    """Runs the tests that apply to a selector and enters their results into a report.

    Parameters
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    reproducibility : Reproducibility
    support : {"auto", "empirical", "product"}
    level : float
        False-alarm rate.
    """

    def __init__(
        self,
        queries: SelectorQueries,
        sampler: RowSampler,
        reproducibility: Reproducibility,
        support: str,
        level: float,
    ) -> None:
        self.queries = queries
        self.sampler = sampler
        self.reproducibility = reproducibility
        self.support = support
        self.level = level
        self.report = AuditReport(
            selector=queries.selector.name,
            stochastic=reproducibility.stochastic,
            n_rows=queries.background.n_rows,
            n_columns=queries.background.n_columns,
            mean_features=float(reproducibility.masks.sum(axis=1).mean()),
            support="empirical" if support == "empirical" else "product",
            independent_draws=reproducibility.independent,
            batch_dependent=reproducibility.batch_dependent,
            dependent=[] if support == "empirical" else _dependent_units(queries.background),
            share_determined=sampler.share_determined,
            cautions=list(reproducibility.cautions),
        )

    @property
    def found_leak(self) -> bool:
        """Whether a leak was found, be it conditional on the support."""
        return self.report.verdict != NO_LEAK_FOUND

    def _record_leak(
        self,
        witness: Witness | None,
        evidence: str = "proof",
        on_observed_rows: bool | None = None,
        finding: str = "",
    ) -> None:
        """Record a leak; it is conditional if it concerns rows that were not observed."""
        if on_observed_rows is None:
            on_observed_rows = witness is not None and witness.support == "empirical"
        proven = on_observed_rows or self.support == "product"
        self.report.verdict = LEAKS if proven else LEAKS_IF_INDEPENDENT
        self.report.evidence = evidence if proven or evidence == "test" else "combined rows"
        self.report.support = "empirical" if on_observed_rows else "product"
        self.report.witness = witness
        self.report.finding = finding

    def run_exact(self, problem: FiniteProblem | None, n_probes: int, n_draws: int) -> bool:
        """Query all possible rows, if the budget suffices, and return whether this was conclusive.

        Parameters
        ----------
        problem : FiniteProblem or None
            The problem under audit, if its rows are known to be the whole support.
        n_probes : int
            Query budget.
        n_draws : int
            Budget of drawn masks, for a stochastic selector that states probabilities.
        """
        queries, report, background = self.queries, self.report, self.queries.background
        if report.batch_dependent:  # ζ(h | x) is undefined
            return False
        sources: IntArray | None = background.unchanged(np.arange(background.n_rows))
        if problem is None:
            sources = finite_rows(background, self.support, n_probes)
        if sources is None:
            return False
        stochastic, labels = report.stochastic, self.sampler.labels
        observed = are_observed(sources)
        if self.support == "auto" and not observed.all():
            result = exact_verdict(queries, sources[observed], stochastic, labels)
            if result is not None and result[0] is not None:
                self._record_leak(result[0])
                report.n_probes = int(observed.sum())
                return True
        result = exact_verdict(queries, sources, stochastic, labels, problem)
        if result is None:
            return False
        witness, bits = result
        if stochastic and witness is None:
            if not self._samples_match():
                return False
            if queries.selector.samples_itself:
                # The probabilities of all rows are known, but only as stated by the selector.
                self._test_by_drawing(n_draws)
                if self.found_leak:
                    return True
        report.exact = True
        report.support = "empirical" if observed.all() else "product"
        report.n_probes = len(sources) + report.n_draws
        if witness is not None:
            self._record_leak(witness)
            if not stochastic and not observed.all():
                report.influence = unit_influence(queries, self.sampler)
        if report.verdict != LEAKS_IF_INDEPENDENT:
            report.exact_bits = bits
        return True

    def run_probes(self, n_probes: int, n_draws: int) -> None:
        """Search for a leak within the query budgets.

        Parameters
        ----------
        n_probes : int
            Budget of counterfactual probes.
        n_draws : int
            Budget of drawn masks, for a stochastic selector.
        """
        if not self.report.stochastic:
            n_unconfirmed = self._search(n_probes)
            if not self.found_leak:
                self._check_drift()
            self.report.reproducible &= not n_unconfirmed
            is_function = self.report.reproducible and not self.reproducibility.cautions
            if not self.found_leak and not is_function:
                self._search_other_batches(n_probes)
            if self.found_leak or not n_unconfirmed or self.report.batch_dependent:
                return
            # Changes that cannot be reproduced may be rare random events: test for those as well.
            self.report.cautions.append(
                "Some masks changed when the same rows were queried again; the selector was "
                "therefore also tested as a stochastic one."
            )
        elif (
            self.queries.selector.has_probability
            and not self._is_misstated
            and self.support != "empirical"
        ):
            # A smaller budget: the probability of a mask is a sum over selection orders.
            self._compare_probabilities(max(n_probes // 8, 1))
            if self.found_leak:
                return
            if self._samples_match() and not self.queries.selector.samples_itself:
                return
        self._test_by_drawing(n_draws)

    def _search(self, n_probes: int) -> int:
        found = Search(self.queries, self.sampler, self.support).compare_masks(n_probes)
        self._record_probes(found)
        self.report.influence = found.influence
        if found.witness is None and self.support == "empirical":
            codes, n_rows = self.queries.background.codes, self.sampler.n_rows
            rows, masks = np.arange(n_rows), self.sampler.masks
            n = len(observed_partners(codes, rows, masks, self.queries.rng)[0])
            self.report.n_probes = n
            if n < n_rows / 2:
                self.report.cautions.append(
                    f"Only {n:,} of {n_rows:,} rows agree with another row on all revealed "
                    "values, so the test on the empirical support has little power."
                )
        return found.n_unconfirmed

    def _record_probes(self, found: Search) -> None:
        self.report.n_probes = found.n_uniform + found.n_adaptive
        self.report.n_uniform = found.n_uniform
        self.report.n_uniform_changed = found.n_uniform_changed
        if found.witness is not None:
            self._record_leak(found.witness)

    def _check_drift(self) -> None:
        """Query the background rows again, since the queries may have changed the selector."""
        masks = self.reproducibility.masks
        if self.queries.out_of_time:
            return
        if changed_rows(self.queries, masks, np.arange(len(masks))).any():
            self.report.reproducible = False
            self.report.cautions.append(
                "The same rows received other masks at the end of the audit than at its beginning: "
                "the masks depend on earlier queries."
            )

    def _search_other_batches(self, n_probes: int) -> None:
        """Test the selector one row at a time, unless this has been done, and in fixed batches."""
        if self.support == "empirical":  # the other batches would contain combinations
            return
        queries, background = self.queries, self.queries.background
        with queries.stop_at_limit():
            if queries.batch_size > 1:
                with queries.one_row_per_call():
                    masks = queries.select(background.unchanged(np.arange(background.n_rows)))
                    sampler = RowSampler(background, masks, queries.rng, self.sampler.labels)
                    search = Search(queries, sampler, self.support)
                    witness = search.compare_masks(min(n_probes, _N_INDIVIDUAL_PROBES)).witness
                if witness is not None:
                    finding = "the masks of the witness hold in calls of one row"
                    self._record_leak(witness, finding=finding)
                    return
            found = search_batches(queries, self.sampler, _N_BATCHES)
            self.report.n_batches, finding, witness = found
            if finding:
                self._record_leak(witness, finding=finding)

    def _compare_probabilities(self, n_probes: int) -> None:
        found = Search(self.queries, self.sampler, self.support).compare_probabilities(n_probes)
        self._record_probes(found)
        if found.witness is None and found.n_impossible:
            self.report.cautions.append(_MISMATCH)

    def _samples_match(self) -> bool:
        """Test the goodness of fit of the samples; stated probabilities are no evidence alone."""
        p_value = 1.0
        with self.queries.stop_at_limit():
            p_value, difference = compare_samples(self.queries, self.level)
            self.report.detectable_difference = difference
        if p_value <= self.level and not self._is_misstated:
            self.report.cautions.append(_MISMATCH)
        return not self._is_misstated

    @property
    def _is_misstated(self) -> bool:
        return _MISMATCH in self.report.cautions

    def _test_by_drawing(self, n_draws: int) -> None:
        report = self.report
        with self.queries.stop_at_limit():  # an incomplete test has no result
            found = DrawnMasks(self.queries, self.sampler, self.level).test(self.support, n_draws)
            report.p_value = found.p_value
            report.detectable_shift = found.detectable_shift
            report.detectable_shift_individually = found.detectable_shift_individually
            report.n_untested = found.n_untested
            report.n_draws = found.n_draws
            report.n_probes += found.n_draws
            if found.leaks:
                report.influence = found.influence
                self._record_leak(found.witness, "test", found.on_observed_rows, found.finding)

    def run_training_rows(self, background: BackgroundData, n_probes: int, n_draws: int) -> None:
        """Repeat the search on rows that the selector was fitted on.

        Parameters
        ----------
        background : BackgroundData
            These rows.
        n_probes, n_draws : int
            Query budgets, as in `run_probes`.
        """
        self.queries.background = background
        self.queries.batch_size = self.queries.max_batch_size
        reproducibility = check_reproducibility(self.queries)
        sampler = RowSampler(background, reproducibility.masks, self.queries.rng)
        other = AuditProcedure(self.queries, sampler, reproducibility, self.support, self.level)
        other.run_probes(n_probes, n_draws)
        report, found = self.report, other.report
        report.cautions += [f"Training rows: {caution}" for caution in found.cautions]
        report.n_training_rows = background.n_rows
        if other.found_leak and (found.verdict == LEAKS or not self.found_leak):
            report.verdict, report.evidence, report.exact = found.verdict, found.evidence, False
            report.witness, report.support = found.witness, found.support
            report.influence = found.influence or report.influence
            if found.p_value is not None:
                report.p_value = found.p_value
            report.finding = "; ".join(filter(None, [found.finding, "found on the training rows"]))

    def finish(
        self,
        gaps: PredictiveGaps | None,
        seconds: float,
        false_alarm_rate: float,
        subsampled: bool,
    ) -> AuditReport:
        """Derive the verdict from all results, and return the report.

        Parameters
        ----------
        gaps : PredictiveGaps or None
        seconds : float
            Duration of the audit.
        false_alarm_rate : float
            That of the whole audit; training rows use half of it.
        subsampled : bool
            Whether a random subset of the rows was used.
        """
        report, found_leak = self.report, self.found_leak
        if self.queries.selector.claims_leak_free and not found_leak:
            report.verdict = LEAK_FREE
        elif self.queries.selector.claims_leak_free:
            report.cautions.append(
                "The selector claims to be leak-free by construction, whatever rows are possible; "
                "the probes refute this."
            )
        report.gaps = gaps
        if gaps is not None:
            report.cautions += gaps.cautions
            if gaps.significant and not found_leak:
                targets = ", ".join(f"`{gap.target}`" for gap in gaps.significant[:4])
                report.cautions.append(
                    f"The masks help to predict {targets}, although no probe found a leak. Either "
                    "the leak is confined to rows that the probes missed, or the models of the "
                    "predictive gaps are biased."
                )
        if self.queries.out_of_time:
            report.cautions.append("The time limit was reached before all probes were made.")
        if subsampled:
            report.cautions.append(
                f"A random subset of the data was audited: {report.n_rows:,} rows."
            )
        report.n_calls, report.n_queries = self.queries.n_calls, self.queries.n_rows
        report.seconds, report.false_alarm_rate = seconds, false_alarm_rate
        return report


def _dependent_units(background: BackgroundData) -> list[list[str]]:
    members: dict[int, list[str]] = {}
    for name, block in zip(background.unit_names, background.blocks, strict=True):
        members.setdefault(int(block), []).append(name)
    return [names for names in members.values() if len(names) > 1]


_OPEN_UNIT_INTERVAL = Interval(Real, 0, 1, closed="neither")
_MASK_CONSTRAINTS: dict[str, list[Any]] = {
    "false_alarm_rate": [_OPEN_UNIT_INTERVAL],
    "confidence": [_OPEN_UNIT_INTERVAL],
    "max_rows": [Interval(Integral, 2)],
}
_CONSTRAINTS: dict[str, list[Any]] = {
    **_MASK_CONSTRAINTS,
    "support": [Options("auto", "product", "empirical")],
    "n_probes": [None, Interval(Integral, 1)],
    "n_draws": [Interval(Integral, 500)],
    "max_seconds": [None, Interval(Real, 0, closed="right")],
    "batch_size": [Interval(Integral, 1)],
}


def audit(
    selector: Any,
    X: Any,
    y: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    policy: str | None = None,
    support: str = "auto",
    groups: Groups | None = None,
    feature_names: Sequence[str] | None = None,
    false_alarm_rate: float = 0.01,
    n_probes: int | None = None,
    n_draws: int = 200_000,
    gaps: bool = True,
    confidence: float = 0.95,
    max_rows: int = 2000,
    max_seconds: float | None = None,
    batch_size: int = 4096,
    training_rows: Any = None,
    verbose: bool | None = None,
) -> AuditReport:
    """Audit a feature selector for label and feature leakage.

    Parameters
    ----------
    selector : object
        An object with ``select(X)`` that returns one boolean mask per row; a callable
        ``X -> masks``, which may be stochastic and may accept ``rng`` or ``random_state``; or, for
        few columns, an object with only ``mask_probability(X, masks)``. `suwr.auditing.adapters`
        makes selectors of the attributions of other libraries.
    X : array or data frame of shape (n_rows, n_columns), or FiniteProblem
        Background rows, from the distribution that the selector is used on. Hidden values are
        resampled from them.
    y : array-like of shape (n_rows,), optional
        Labels. Required to measure label leakage; the search for leaks uses them too.
    random_state : int, Generator or None
    policy : str, optional
        Passed to the methods of the selector, for example ``"sampled"``.
    support : {"auto", "product", "empirical"}
        Which rows are possible. "product": all combinations of observed values of units; choose
        it if the columns vary independently. "empirical": only the rows of ``X``, so that only
        rows that agree on all revealed values can be compared. "auto": unknown. Observed rows are
        compared first, combinations afterwards, and a leak that only combinations show has the
        verdict "leaks if columns vary independently". Combinations keep the dependence between
        columns that holds in all rows of ``X``, such as copies, one-hot codes and sums.
    groups : dict, list of lists of columns, or Patches, optional
        Columns that are revealed together, such as a one-hot code. They are resampled together
        and reported as one unit. By default the groups of the selector, if it has any. A pixel
        of overlapping patches is resampled with the patch whose centre is nearest.
    feature_names : sequence of str, optional
        Names of the columns for the report; by default those of the data frame.
    false_alarm_rate : float
        Upper bound of the probability that a stochastic selector without leakage is reported to
        leak. A leak of a deterministic selector is shown by a witness.
    n_probes : int, optional
        Query budget: maximum number of counterfactual probes of a deterministic selector. By
        default 16 per row of ``X``, at least 4,096 and at most 32,000.
    n_draws : int
        Number of masks to draw from a stochastic selector.
    gaps : bool
        Whether to measure the predictive gaps, which takes most of the time.
    confidence : float
        Confidence level of the intervals of the predictive gaps.
    max_rows : int
        A random subset of this size is audited if ``X`` has more rows.
    max_seconds : float, optional
        Time limit for querying the selector. A slow selector is audited on fewer rows; the report
        states how many, and whether the limit was reached.
    batch_size : int
        Maximum number of rows per call of the selector.
    training_rows : array or data frame of shape (n_training_rows, n_columns), optional
        Rows that the selector was fitted on. They are queried in addition to ``X``, since a
        selector may treat rows that it recognises differently; at most ``max_rows`` of them.
    verbose : bool, optional
        Whether to show progress bars; by default only on a terminal.

    Returns
    -------
    AuditReport

    Examples
    --------
    A selector that reveals ``x0``, and ``x1`` if the hidden ``x2`` is positive:

    >>> import numpy as np
    >>> from suwr.auditing import audit
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def leaky(X):
    ...     return np.stack([X[:, 0] < 9, X[:, 2] > 0, X[:, 0] > 9], axis=1)
    >>> report = audit(leaky, X, random_state=0, gaps=False)
    >>> report.verdict, report.assumed_independent
    ('leaks if columns vary independently', ['x2'])
    >>> audit(leaky, X, random_state=0, gaps=False, support="product").verdict
    'leaks'
    >>> audit(lambda X: X < np.inf, X, random_state=0, gaps=False).verdict
    'no leak found'
    """
    check_parameters("audit", _CONSTRAINTS, locals())
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    problem = X if isinstance(X, FiniteProblem) else None
    if problem is not None:
        X, support, max_rows = problem.frame(), "empirical", max(max_rows, problem.n_rows)
    rows, labels = _subsample(X, y, max_rows, rng)
    declared = groups is None
    groups = selector_groups(selector) if declared else groups
    full_support = support == "product"
    background = BackgroundData(X, feature_names, groups, rows, full_support)
    wrapped = as_selector(selector, policy, background.membership)
    if hasattr(wrapped.source, "fit") and hasattr(wrapped.source, "get_params"):
        check_is_fitted(wrapped.source)
    budget = n_probes or int(np.clip(16 * background.n_rows, 4096, 32_000))
    bars = ["Querying the selector", "Measuring predictive gaps"]
    with progress_bars(bars, verbose=verbose) as (query_progress, gap_progress):
        queries = SelectorQueries(wrapped, background, rng, batch_size, max_seconds, query_progress)
        if max_seconds is not None and problem is None:
            n_affordable = queries.affordable_rows(max_seconds)
            if n_affordable < background.n_rows:
                rows, labels = _subsample(X, y, n_affordable, rng)
                background = BackgroundData(X, feature_names, groups, rows, full_support)
                queries.background = background
        classes = None if labels is None else as_classes(labels)
        query_progress.expect(3 * background.n_rows + budget)
        reproducibility = check_reproducibility(queries)
        if not reveals_whole_units(reproducibility.masks, background.membership):
            reproducibility.cautions.append(
                "Some masks reveal only a part of a group. "
                + ("The groups of the selector were not used." if declared else "")
            )
            if declared:
                groups = None
                background = BackgroundData(X, feature_names, None, rows, full_support)
                queries.background = background
        if reproducibility.stochastic:
            query_progress.expect(3 * background.n_rows + n_draws)
        sampler = RowSampler(background, reproducibility.masks, rng, classes)
        level = false_alarm_rate if training_rows is None else false_alarm_rate / 2
        procedure = AuditProcedure(queries, sampler, reproducibility, support, level)
        if not procedure.run_exact(problem, budget, n_draws):
            procedure.run_probes(budget, n_draws)
        if training_rows is not None and procedure.report.verdict != LEAKS:
            chosen, _ = _subsample(training_rows, None, max_rows, rng)
            known = BackgroundData(training_rows, feature_names, groups, chosen, full_support)
            procedure.run_training_rows(known, budget, n_draws)
        measured = None
        if gaps and problem is None:
            measured = predictive_gaps(
                background,
                reproducibility.masks,
                labels,
                rng,
                confidence=confidence,
                false_alarm_rate=false_alarm_rate,
                progress=gap_progress,
            )
    seconds = time.monotonic() - started
    return procedure.finish(measured, seconds, false_alarm_rate, subsampled=rows is not None)


def audit_masks(
    X: Any,
    masks: ArrayLike,
    y: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    groups: Groups | None = None,
    feature_names: Sequence[str] | None = None,
    false_alarm_rate: float = 0.01,
    confidence: float = 0.95,
    max_rows: int = 2000,
    verbose: bool | None = None,
) -> AuditReport:
    """Audit masks without access to the selector that chose them.

    Without queries, only the predictive gaps can be measured: the verdict "leaks" is statistical
    evidence rather than a proof, and small leaks remain undetected.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
    masks : array-like of shape (n_rows, n_columns)
        True, or 1, where a value is revealed.
    y, random_state, groups, feature_names, false_alarm_rate, confidence, max_rows, verbose
        As in `audit`.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.auditing import audit_masks
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> masks = np.stack([X[:, 1] > 0, np.zeros(600, dtype=bool)], axis=1)
    >>> report = audit_masks(X, masks, random_state=0)
    >>> report.verdict, report.evidence, report.gaps.features[0].target
    ('leaks', 'gaps', 'x1')
    """
    check_parameters("audit_masks", _MASK_CONSTRAINTS, locals())
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    rows, labels = _subsample(X, y, max_rows, rng)
    background = BackgroundData(X, feature_names, groups, rows)
    selected = as_masks(masks, len(X), background.n_columns)
    selected = selected if rows is None else selected[rows]
    with progress_bars(["Measuring predictive gaps"], verbose=verbose) as (gap_progress,):
        gaps = predictive_gaps(
            background,
            selected,
            labels,
            rng,
            confidence=confidence,
            false_alarm_rate=false_alarm_rate,
            progress=gap_progress,
        )
    leaks = bool(gaps.significant)
    return AuditReport(
        selector="the given masks",
        stochastic=False,
        n_rows=background.n_rows,
        n_columns=background.n_columns,
        mean_features=float(selected.sum(axis=1).mean()),
        verdict=LEAKS if leaks else NO_LEAK_FOUND,
        evidence="gaps" if leaks else "none",
        support="masks only",
        gaps=gaps,
        cautions=gaps.cautions,
        seconds=time.monotonic() - started,
        false_alarm_rate=false_alarm_rate,
    )


def selector_groups(selector: Any) -> Groups | None:
    """The ``groups`` parameter of an estimator, if it has one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> selector_groups(SimpleNamespace(groups={"ward": [1, 2]}))
    {'ward': [1, 2]}
    """
    groups = getattr(selector, "groups", None)
    return groups if isinstance(groups, Mapping | list | tuple | Patches) else None


def _subsample(
    X: Any, y: Any | None, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray | None, NDArray[Any] | None]:
    """Positions of a random subset of at most ``max_rows`` rows (None for all) and its labels."""
    n_rows = len(as_rows(X))
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n_rows,):
        must = f"have one label per row ({n_rows})"
        raise must_error("y", "audit", must, f"an array of shape {labels.shape}")
    if n_rows <= max_rows:
        return None, labels
    rows = np.sort(rng.choice(n_rows, max_rows, replace=False))
    return rows, None if labels is None else labels[rows]


def audit_files(
    table: str | Path,
    *,
    model: Any | None = None,
    masks: str | Path | None = None,
    label: str | None = None,
    random_state: int | None = 0,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    **options: Any,
) -> AuditReport:
    """Audit a selector on the rows of a CSV file, or masks from a second file.

    Parameters
    ----------
    table : path
        CSV file with a header.
    model : selector, optional
        A selector, for example a model that ``suwr.load`` returned.
    masks : path, optional
        CSV file of masks, one row per row of ``table``, with the same columns except for the
        label, and values 0 and 1 (or false and true).
    label : str, optional
        Column of ``table`` that contains the labels.
    random_state : int or None
    sep : str, optional
        Separator, one character, of the columns of both files; a comma by default, and
        a tab for .tsv.
    encoding : str, optional
        Encoding of both files; UTF-8 by default.
    decimal : {'.', ','}, default='.'
        Decimal separator of the table.
    **options
        Further parameters of `audit` or `audit_masks`.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from suwr.auditing import audit_files
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "rows.csv"
    ...     X.to_csv(table, index=False)
    ...     report = audit_files(table, model=lambda X: X.to_numpy() > 0, gaps=False)
    >>> report.verdict
    'leaks'
    """
    if (model is None) == (masks is None):
        raise ValueError("Pass either a model or a file of masks to audit, not both.")
    if isinstance(model, str | Path):
        raise parameter_error(
            "model", "audit_files", "a selector, such as the result of suwr.load(path)", model
        )
    encoder = getattr(model, "encoder_", None)
    has_types = isinstance(encoder, TableEncoder)
    rows = _read_csv(table, sep, encoding, infer_types=not has_types, decimal=decimal)
    labels = None
    if label is not None:
        if label not in rows.columns:
            raise TableError(f"{table} has no label column {label!r}.")
        labels = _read_csv(table, sep, encoding, columns=[label])[label].to_numpy()
        rows = rows.drop(columns=label)
    if masks is not None:
        selected = _read_masks(_read_csv(masks, sep, encoding), masks, list(rows.columns), label)
        if len(selected) != len(rows):
            raise TableError(
                f"{masks} must have one mask per row of {table} ({len(rows)}). "
                f"Got {len(selected)} instead."
            )
        return audit_masks(rows, selected, labels, random_state, **options)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        dates = getattr(model, "dates_", None)
        if dates is not None and set(dates.columns) <= set(rows.columns):
            rows = dates.transform(rows)
        missing = [str(name) for name in names if name not in rows.columns]
        if missing:
            raise TableError(f"{table} lacks columns of the model: {', '.join(missing)}.")
        rows = rows[list(names)]
    if isinstance(encoder, TableEncoder):
        rows = _parse(with_points(rows, encoder, decimal), encoder)
    return audit(model, rows, labels, random_state, **options)


def _parse(rows: Any, encoder: TableEncoder) -> Any:
    """Parse texts by the types of the model; an audit exchanges cells, so all must be valid."""
    if rows.shape[1] != len(encoder.names):
        return rows  # the model raises an error
    parsed = encoder.parse(raw_columns(rows))
    parsed.check_revealed(np.ones(rows.shape, dtype=bool), quote=False)
    return type(rows)(dict(zip(rows.columns, parsed.columns, strict=True)))


def _read_csv(
    path: str | Path,
    sep: str | None,
    encoding: str | None,
    *,
    infer_types: bool = True,
    columns: list[str] | None = None,
    decimal: str = ".",
) -> Any:
    with open_table(path, sep, encoding, infer_types=infer_types, decimal=decimal) as file:
        return file.read_frame(columns)


def _read_masks(masks: Any, path: str | Path, columns: list[Any], label: str | None) -> BoolArray:
    masks = masks.drop(columns=label) if label in masks.columns else masks
    unknown = [str(name) for name in masks.columns if name not in columns]
    missing = [str(name) for name in columns if name not in masks.columns]
    if unknown or missing:
        problems = [f"unknown: {', '.join(unknown)}"] if unknown else []
        problems += [f"missing: {', '.join(missing)}"] if missing else []
        raise TableError(f"{path} must have the columns of the rows ({'; '.join(problems)}).")
    values = masks[columns].to_numpy()
    if not np.isin(values, (0, 1)).all():
        raise TableError(f"{path} must contain only 0 and 1, or false and true.")
    return values.astype(bool)
