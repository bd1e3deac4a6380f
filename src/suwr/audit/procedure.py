"""The procedure of an audit: which tests apply, in which order, and the resulting verdict."""

from typing import Any

import numpy as np

from suwr.audit.background import IntArray
from suwr.audit.batches import search_batches
from suwr.audit.deterministic import SearchResult, search, unit_influence
from suwr.audit.exact import are_observed, compare_probabilities, exact_verdict, finite_rows
from suwr.audit.gaps import PredictiveGaps
from suwr.audit.goodness_of_fit import compare_samples
from suwr.audit.queries import SelectorQueries
from suwr.audit.report import (
    LEAK_FREE,
    LEAKS,
    LEAKS_IF_INDEPENDENT,
    NO_LEAK_FOUND,
    AuditReport,
)
from suwr.audit.reproducibility import Reproducibility, check_reproducibility, drifted
from suwr.audit.sampling import RowSampler
from suwr.audit.stochastic import run_tests
from suwr.audit.witness import Witness
from suwr.exact import FiniteProblem

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
