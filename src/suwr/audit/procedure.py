"""The procedure of an audit: which tests apply, in which order, and the resulting verdict."""

from typing import Any

import numpy as np

from suwr.audit.background import IntArray
from suwr.audit.deterministic import search, unit_influence
from suwr.audit.exact import (
    compare_probabilities,
    exact_verdict,
    finite_rows,
    samples_match_probabilities,
)
from suwr.audit.gaps import PredictiveGaps
from suwr.audit.queries import Reproducibility, SelectorQueries
from suwr.audit.report import LEAK_FREE, LEAKS, NO_LEAK_FOUND, AuditReport
from suwr.audit.sampling import RowSampler
from suwr.audit.stochastic import run_tests
from suwr.exact import FiniteProblem

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
            "support": "empirical" if support == "empirical" else "product"
        }
        self.leaks = False
        self.evidence = "none"
        self.is_exact = False

    def run_exact(self, problem: FiniteProblem | None, n_probes: int) -> bool:
        """Query all possible rows, if the budget suffices, and return whether this was conclusive.

        Parameters
        ----------
        problem : FiniteProblem or None
            The problem under audit, if its rows are known to be the whole support.
        n_probes : int
            Query budget.
        """
        background = self.queries.background
        if self.reproducibility.batch_dependent:  # ζ(h | x) is undefined
            return False
        rows: tuple[IntArray, str] | None
        if problem is not None:
            rows = (background.unchanged(np.arange(background.n_rows)), "empirical")
        else:
            rows = finite_rows(background, self.support, n_probes)
        if rows is None:
            return False
        stochastic = self.reproducibility.stochastic
        result = exact_verdict(self.queries, *rows, stochastic, self.sampler.labels, problem)
        if result is None or (stochastic and not result.leaks and not self._samples_match()):
            return False
        self.is_exact = True
        self.leaks = result.leaks
        self.evidence = "proof" if result.leaks else "none"
        self.results |= {
            "witness": result.witness,
            "support": result.support,
            "n_probes": result.n_rows,
            "exact_bits": result.bits,
        }
        if not stochastic and result.leaks and result.support == "product":
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
            if self.leaks or not n_unconfirmed or self.reproducibility.batch_dependent:
                return
            # Changes that cannot be reproduced may be rare random events: test for those as well.
            self.cautions.append(
                "Some masks changed when the same rows were queried again; the selector was "
                "therefore also tested as a stochastic one."
            )
        elif self._has_reliable_probabilities() and self.support != "empirical":
            # A smaller budget: the probability of a mask is a sum over selection orders.
            self._compare_probabilities(max(n_probes // 4, 1))
            if self.leaks or self._samples_match():
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
            self.leaks, self.evidence = True, "proof"
            self.results["witness"] = found.witness
            self.results["support"] = found.witness.support
        elif self.support == "empirical":
            n, n_rows = found.n_agreeing_rows, self.sampler.n_rows
            self.results["n_probes"] = n
            if n < n_rows / 2:
                self.cautions.append(
                    f"Only {n:,} of {n_rows:,} rows agree with another row on all revealed "
                    "values, so the test on the empirical support has little power."
                )
        return found.n_unconfirmed

    def _compare_probabilities(self, n_probes: int) -> None:
        found = compare_probabilities(self.queries, self.sampler, n_probes, self.rng)
        self.results |= {
            "n_probes": found.n_uniform + found.n_adaptive,
            "n_uniform": found.n_uniform,
            "n_uniform_changed": found.n_uniform_changed,
        }
        if found.witness is not None:
            self.leaks, self.evidence = True, "proof"
            self.results["witness"] = found.witness

    def _samples_match(self) -> bool:
        matches = samples_match_probabilities(
            self.queries, self.sampler, self.false_alarm_rate, self.rng
        )
        if not matches:
            self.cautions.append(_MISMATCH)
        return matches

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
        self.results["n_probes"] = self.results.get("n_probes", 0) + found.n_draws
        if found.leaks:
            self.leaks, self.evidence = True, "test"
            self.results |= {
                "witness": found.witness,
                "finding": found.finding,
                "influence": found.influence,
            }

    def report(self, gaps: PredictiveGaps | None, seconds: float, subsampled: bool) -> AuditReport:
        """Derive the verdict and assemble the report.

        Parameters
        ----------
        gaps : PredictiveGaps or None
        seconds : float
            Duration of the audit.
        subsampled : bool
            Whether a random subset of the rows was used.
        """
        background, selector = self.queries.background, self.queries.selector
        verdict = LEAKS if self.leaks else NO_LEAK_FOUND
        if selector.claims_leak_free and not self.leaks:
            verdict = LEAK_FREE
        elif selector.claims_leak_free:
            self.cautions.append(
                "The selector claims to be leak-free by construction; the probes refute this."
            )
        if gaps is not None:
            self.cautions += gaps.cautions
        if gaps is not None and gaps.significant and not self.leaks:
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
            false_alarm_rate=self.false_alarm_rate,
            **{"witness": None, **self.results},
        )
