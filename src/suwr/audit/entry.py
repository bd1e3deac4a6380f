"""Audits of selectors, masks and files: which tests apply, in which order, and the verdict."""

import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.progress import progress_bars
from suwr._utils.validation import Interval, Options, check_parameters, parameter_error
from suwr.audit.background import BackgroundData, Groups, IntArray, RowSampler, reveals_whole_units
from suwr.audit.deterministic import SearchResult, search, search_batches, unit_influence
from suwr.audit.exact import are_observed, compare_probabilities, exact_verdict, finite_rows
from suwr.audit.gaps import PredictiveGaps, as_classes, predictive_gaps
from suwr.audit.queries import (
    Reproducibility,
    SelectorQueries,
    affordable_rows,
    check_reproducibility,
    drifted,
)
from suwr.audit.report import LEAK_FREE, LEAKS, LEAKS_IF_INDEPENDENT, NO_LEAK_FOUND, AuditReport
from suwr.audit.stochastic import compare_samples, run_tests
from suwr.audit.witness import Witness
from suwr.data.encode import TableEncoder
from suwr.data.files import open_table
from suwr.data.frame import as_rows, raw_columns
from suwr.data.units import Patches
from suwr.exact import FiniteProblem
from suwr.exceptions import TableError
from suwr.selector import BoolArray, WrappedSelector, as_masks, as_selector

__all__ = ["AuditProcedure", "audit", "audit_files", "audit_masks", "selector_groups"]

_N_BATCHES = 42
_N_INDIVIDUAL_PROBES = 600
_MISMATCH = "The sampled masks do not follow the probabilities that the selector states."


class AuditProcedure:
    """Runs the tests that apply to a selector and collects their results.

    Parameters
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    reproducibility : Reproducibility
    support : {"auto", "empirical", "product"}
    false_alarm_rate : float
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        queries: SelectorQueries,
        sampler: RowSampler,
        reproducibility: Reproducibility,
        support: str,
        false_alarm_rate: float,
        rng: np.random.Generator,
    ) -> None:
        self.queries = queries
        self.sampler = sampler
        self.reproducibility = reproducibility
        self.support = support
        self.false_alarm_rate = false_alarm_rate
        self.rng = rng
        self.cautions = list(reproducibility.cautions)
        self.results: dict[str, Any] = {
            "support": "empirical" if support == "empirical" else "product",
            "reproducible": True,
            "independent_draws": reproducibility.independent,
            "batch_dependent": reproducibility.batch_dependent,
            "dependent": self._dependent_units(),
            "share_determined": sampler.share_determined,
        }
        self.verdict = NO_LEAK_FOUND
        self.evidence = "none"
        self.is_exact = False

    @property
    def found_leak(self) -> bool:
        """Whether a leak was found, be it conditional on the support."""
        return self.verdict != NO_LEAK_FOUND

    def _dependent_units(self) -> list[list[str]]:
        background = self.queries.background
        members: dict[int, list[str]] = {}
        if self.support != "empirical":
            for name, block in zip(background.unit_names, background.blocks, strict=True):
                members.setdefault(int(block), []).append(name)
        return [names for names in members.values() if len(names) > 1]

    def _record_leak(
        self, witness: Witness | None, evidence: str, on_observed_rows: bool, **results: Any
    ) -> None:
        """Record a leak; it is conditional if it concerns rows that were not observed."""
        proven = on_observed_rows or self.support == "product"
        self.verdict = LEAKS if proven else LEAKS_IF_INDEPENDENT
        self.evidence = evidence if proven or evidence == "test" else "combined rows"
        support = "empirical" if on_observed_rows else "product"
        self.results |= {"witness": witness, "support": support, **results}

    @property
    def is_function_of_row(self) -> bool:
        """Whether every row received the same mask in all calls so far."""
        return bool(self.results["reproducible"]) and not self.reproducibility.cautions

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
        background = self.queries.background
        if self.reproducibility.batch_dependent:  # ζ(h | x) is undefined
            return False
        sources: IntArray | None
        if problem is not None:
            sources = background.unchanged(np.arange(background.n_rows))
        else:
            sources = finite_rows(background, self.support, n_probes)
        if sources is None:
            return False
        stochastic, labels = self.reproducibility.stochastic, self.sampler.labels
        observed = are_observed(sources)
        if self.support == "auto" and not observed.all():
            result = exact_verdict(self.queries, sources[observed], stochastic, labels)
            if result is not None and result.leaks:
                self._record_leak(result.witness, "proof", True, n_probes=result.n_rows)
                return True
        result = exact_verdict(self.queries, sources, stochastic, labels, problem)
        if result is None or (stochastic and not result.leaks and not self._samples_match()):
            return False
        if stochastic and not result.leaks and self.queries.selector.samples_itself:
            # The probabilities of all rows are known, but only as stated by the selector.
            self._test_by_drawing(n_draws)
            if self.found_leak:
                return True
        self.is_exact = True
        self.results |= {
            "support": "empirical" if result.is_observed else "product",
            "n_probes": result.n_rows + self.results.get("n_draws", 0),
        }
        if result.witness is not None:
            observed_pair = result.witness.support == "empirical"
            self._record_leak(result.witness, "proof", observed_pair)
        if self.verdict != LEAKS_IF_INDEPENDENT:
            self.results["exact_bits"] = result.bits
        if not stochastic and result.leaks and not result.is_observed:
            self.results["influence"] = unit_influence(self.queries, self.sampler, self.rng)
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
        if not self.reproducibility.stochastic:
            n_unconfirmed = self._search(n_probes)
            if not self.found_leak:
                self._check_drift()
            self.results["reproducible"] &= not n_unconfirmed
            if not self.found_leak and (n_unconfirmed or not self.is_function_of_row):
                self._search_other_batches(n_probes)
            if self.found_leak or not n_unconfirmed or self.reproducibility.batch_dependent:
                return
            # Changes that cannot be reproduced may be rare random events: test for those as well.
            self.cautions.append(
                "Some masks changed when the same rows were queried again; the selector was "
                "therefore also tested as a stochastic one."
            )
        elif self._has_reliable_probabilities() and self.support != "empirical":
            # A smaller budget: the probability of a mask is a sum over selection orders.
            self._compare_probabilities(max(n_probes // 8, 1))
            if self.found_leak:
                return
            matches = self._samples_match()
            if matches and not self.queries.selector.samples_itself:
                return
        self._test_by_drawing(n_draws)

    def _search(self, n_probes: int) -> int:
        found = search(self.queries, self.sampler, self.support, n_probes, self.rng)
        self.results |= {
            "n_probes": found.n_uniform + found.n_adaptive,
            "n_uniform": found.n_uniform,
            "n_uniform_changed": found.n_uniform_changed,
            "influence": found.influence,
        }
        if found.witness is not None:
            self._record_leak(found.witness, "proof", found.witness.support == "empirical")
        elif self.support == "empirical":
            n, n_rows = found.n_agreeing_rows, self.sampler.n_rows
            self.results["n_probes"] = n
            if n < n_rows / 2:
                self.cautions.append(
                    f"Only {n:,} of {n_rows:,} rows agree with another row on all revealed "
                    "values, so the test on the empirical support has little power."
                )
        return found.n_unconfirmed

    def _check_drift(self) -> None:
        """Query the background rows again, since the queries may have changed the selector."""
        if drifted(self.queries, self.reproducibility.masks):
            self.results["reproducible"] = False
            self.cautions.append(
                "The same rows received other masks at the end of the audit than at its beginning: "
                "the masks depend on earlier queries."
            )

    def _search_other_batches(self, n_probes: int) -> None:
        """Test the selector one row at a time, unless this has been done, and in fixed batches."""
        if self.support == "empirical":  # the other batches would contain combinations
            return
        with self.queries.stop_at_limit():
            if self.queries.batch_size > 1:
                found = self._search_individually(min(n_probes, _N_INDIVIDUAL_PROBES))
                if found.witness is not None:
                    self._record_leak(
                        found.witness,
                        "proof",
                        found.witness.support == "empirical",
                        finding="the masks of the witness hold in calls of one row",
                    )
                    return
            batches = search_batches(self.queries, self.sampler, _N_BATCHES, self.rng)
            self.results["n_batches"] = batches.n_batches
            if batches.leaks:
                w = batches.witness
                observed_pair = w is not None and w.support == "empirical"
                self._record_leak(w, "proof", observed_pair, finding=batches.finding)

    def _search_individually(self, n_probes: int) -> SearchResult:
        background = self.queries.background
        with self.queries.one_row_per_call():
            masks = self.queries.select(background.unchanged(np.arange(background.n_rows)))
            sampler = RowSampler(background, masks, self.sampler.labels)
            return search(self.queries, sampler, self.support, n_probes, self.rng)

    def _compare_probabilities(self, n_probes: int) -> None:
        found = compare_probabilities(self.queries, self.sampler, n_probes, self.rng)
        self.results |= {
            "n_probes": found.n_uniform + found.n_adaptive,
            "n_uniform": found.n_uniform,
            "n_uniform_changed": found.n_uniform_changed,
        }
        if found.witness is not None:
            self._record_leak(found.witness, "proof", found.witness.support == "empirical")
        elif found.n_impossible:
            self.cautions.append(_MISMATCH)

    def _samples_match(self) -> bool:
        """Test the goodness of fit of the samples; stated probabilities are no evidence alone."""
        fit = None
        with self.queries.stop_at_limit():
            fit = compare_samples(self.queries, self.false_alarm_rate, self.rng)
        if fit is not None:
            self.results["detectable_difference"] = fit.detectable_difference
        matches = fit is None or fit.p_value > self.false_alarm_rate
        if not matches and _MISMATCH not in self.cautions:
            self.cautions.append(_MISMATCH)
        return matches and _MISMATCH not in self.cautions

    def _has_reliable_probabilities(self) -> bool:
        return self.queries.selector.has_probability and _MISMATCH not in self.cautions

    def _test_by_drawing(self, n_draws: int) -> None:
        found = None
        with self.queries.stop_at_limit():  # an incomplete test has no result
            found = run_tests(
                self.queries, self.sampler, self.support, n_draws, self.false_alarm_rate, self.rng
            )
        if found is None:
            return
        self.results["p_value"] = found.p_value
        self.results["detectable_shift"] = found.detectable_shift
        self.results["detectable_shift_individually"] = found.detectable_shift_individually
        self.results["n_draws"] = found.n_draws
        self.results["n_untested"] = found.n_untested
        self.results["n_probes"] = self.results.get("n_probes", 0) + found.n_draws
        if found.leaks:
            self._record_leak(
                found.witness,
                "test",
                found.on_observed_rows,
                finding=found.finding,
                influence=found.influence,
            )

    def run_training_rows(self, n_probes: int, n_draws: int) -> None:
        """Repeat the search on rows that the selector was fitted on, the background of `queries`.

        Parameters
        ----------
        n_probes, n_draws : int
            Query budgets, as in `run_probes`.
        """
        background = self.queries.background
        self.queries.batch_size = self.queries.max_batch_size
        reproducibility = check_reproducibility(self.queries, self.rng)
        sampler = RowSampler(background, reproducibility.masks)
        other = AuditProcedure(
            self.queries, sampler, reproducibility, self.support, self.false_alarm_rate, self.rng
        )
        other.run_probes(n_probes, n_draws)
        self.cautions += [f"Training rows: {caution}" for caution in other.cautions]
        self.results["n_training_rows"] = background.n_rows
        if other.found_leak and (other.verdict == LEAKS or not self.found_leak):
            self.verdict, self.evidence, self.is_exact = other.verdict, other.evidence, False
            finding = [other.results.get("finding", ""), "found on the training rows"]
            self.results |= {
                key: other.results[key]
                for key in ("witness", "support", "p_value", "influence")
                if key in other.results
            }
            self.results["finding"] = "; ".join(part for part in finding if part)

    def report(
        self,
        gaps: PredictiveGaps | None,
        seconds: float,
        false_alarm_rate: float,
        subsampled: bool,
    ) -> AuditReport:
        """Derive the verdict and assemble the report.

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
        background, selector = self.queries.background, self.queries.selector
        verdict = self.verdict
        if selector.claims_leak_free and not self.found_leak:
            verdict = LEAK_FREE
        elif selector.claims_leak_free:
            self.cautions.append(
                "The selector claims to be leak-free by construction, whatever rows are possible; "
                "the probes refute this."
            )
        if gaps is not None:
            self.cautions += gaps.cautions
        if gaps is not None and gaps.significant and not self.found_leak:
            targets = ", ".join(f"`{gap.target}`" for gap in gaps.significant[:4])
            self.cautions.append(
                f"The masks help to predict {targets}, although no probe found a leak. Either the "
                "leak is confined to rows that the probes missed, or the models of the predictive "
                "gaps are biased."
            )
        if self.queries.out_of_time:
            self.cautions.append("The time limit was reached before all probes were made.")
        if subsampled:
            self.cautions.append(
                f"A random subset of the data was audited: {background.n_rows:,} rows."
            )
        return AuditReport(
            verdict=verdict,
            evidence=self.evidence,
            exact=self.is_exact,
            selector=selector.name,
            stochastic=self.reproducibility.stochastic,
            n_rows=background.n_rows,
            n_columns=background.n_columns,
            mean_features=float(self.reproducibility.masks.sum(axis=1).mean()),
            gaps=gaps,
            cautions=self.cautions,
            n_calls=self.queries.n_calls,
            n_queries=self.queries.n_rows,
            seconds=seconds,
            false_alarm_rate=false_alarm_rate,
            **{"witness": None, **self.results},
        )


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
        few columns, an object with only ``mask_probability(X, masks)``. `suwr.audit.adapters`
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
    >>> from suwr.audit import audit
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
    _check_fitted(wrapped)
    budget = n_probes or int(np.clip(16 * background.n_rows, 4096, 32_000))
    gaps = gaps and problem is None
    bars = ["Querying the selector", "Measuring predictive gaps"]
    with progress_bars(bars, verbose=verbose) as (query_progress, gap_progress):
        queries = SelectorQueries(wrapped, background, rng, batch_size, max_seconds, query_progress)
        if max_seconds is not None and problem is None:
            n_affordable = affordable_rows(queries, max_seconds)
            if n_affordable < background.n_rows:
                rows, labels = _subsample(X, y, n_affordable, rng)
                background = BackgroundData(X, feature_names, groups, rows, full_support)
                queries.background = background
        classes = None if labels is None else as_classes(labels)
        query_progress.expect(3 * background.n_rows + budget)
        reproducibility = check_reproducibility(queries, rng)
        if not reveals_whole_units(reproducibility.masks, background.membership):
            if declared:
                groups = None
                background = BackgroundData(X, feature_names, None, rows, full_support)
                queries.background = background
            reproducibility.cautions.append(
                "Some masks reveal only a part of a group. "
                + ("The groups of the selector were not used." if declared else "")
            )
        if reproducibility.stochastic:
            query_progress.expect(3 * background.n_rows + n_draws)
        sampler = RowSampler(background, reproducibility.masks, classes)
        level = false_alarm_rate if training_rows is None else false_alarm_rate / 2
        procedure = AuditProcedure(queries, sampler, reproducibility, support, level, rng)
        if not procedure.run_exact(problem, budget, n_draws):
            procedure.run_probes(budget, n_draws)
        if training_rows is not None and procedure.verdict != LEAKS:
            chosen, _ = _subsample(training_rows, None, max_rows, rng)
            queries.background = BackgroundData(
                training_rows, feature_names, groups, chosen, full_support
            )
            procedure.run_training_rows(budget, n_draws)
            queries.background = background
        measured = None
        if gaps:
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
    return procedure.report(measured, seconds, false_alarm_rate, subsampled=rows is not None)


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
    >>> from suwr.audit import audit_masks
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
        verdict=LEAKS if leaks else NO_LEAK_FOUND,
        witness=None,
        evidence="gaps" if leaks else "none",
        exact=False,
        support="masks only",
        selector="the given masks",
        stochastic=False,
        n_rows=background.n_rows,
        n_columns=background.n_columns,
        mean_features=float(selected.sum(axis=1).mean()),
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


def _check_fitted(selector: WrappedSelector) -> None:
    source = selector.source
    if hasattr(source, "fit") and hasattr(source, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(source)


def _subsample(
    X: Any, y: Any | None, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray | None, NDArray[Any] | None]:
    """Positions of a random subset of at most ``max_rows`` rows (None for all) and its labels."""
    n_rows = len(as_rows(X))
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n_rows,):
        raise ValueError(
            f"The 'y' parameter of audit must have one label per row ({n_rows}). "
            f"Got an array of shape {labels.shape} instead."
        )
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
    >>> from suwr.audit import audit_files
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
    rows = _read_csv(table, sep, encoding, infer_types=not has_types)
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
        rows = _parse(rows, encoder)
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
) -> Any:
    if not Path(path).exists():
        raise TableError(f"There is no file {path}.")
    try:
        with open_table(path, sep, encoding, infer_types=infer_types) as file:
            return file.read_frame(columns)
    except UnicodeDecodeError as error:
        raise TableError(f"{str(path)!r} cannot be read: {error}") from error


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
