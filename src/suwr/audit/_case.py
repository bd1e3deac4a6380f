"""One audit under way: which probes apply, in which order, and what follows from them."""

from typing import Any

import numpy as np

from suwr.audit._company import Behaviour
from suwr.audit._exact import ExactResult, exact_verdict, finite_rows
from suwr.audit._gaps import Gaps
from suwr.audit._oracle import Oracle
from suwr.audit._probability import follows_samples, probe_probabilities
from suwr.audit._redraw import Deck
from suwr.audit._report import LEAK_FREE, LEAKS, NO_LEAK_FOUND, AuditReport
from suwr.audit._search import influence, search
from suwr.audit._stochastic import probe_stochastic
from suwr.audit._table import IntArray
from suwr.exact import FiniteProblem

_UNFAITHFUL = "The masks that the selector draws do not follow the probabilities that it states."


class Case:
    """One audit under way: what is known so far, and what it comes to."""

    def __init__(
        self,
        oracle: Oracle,
        deck: Deck,
        behaviour: Behaviour,
        support: str,
        false_alarm_rate: float,
        rng: np.random.Generator,
    ) -> None:
        self.oracle = oracle
        self.deck = deck
        self.behaviour = behaviour
        self.support = support
        self.false_alarm_rate = false_alarm_rate
        self.rng = rng
        self.cautions = list(behaviour.cautions)
        self.results: dict[str, Any] = {
            "support": "empirical" if support == "empirical" else "product"
        }
        self.leaks = False
        self.evidence = "none"
        self.is_exact = False

    def exact(self, problem: FiniteProblem | None, n_probes: int) -> ExactResult | None:
        """Decide once and for all, if the probes suffice to ask about all possible rows."""
        table = self.oracle.table
        if self.behaviour.company:  # there is no ζ(h | x) then
            return None
        if problem is not None:
            rows: tuple[IntArray, str] | None = (table.itself(np.arange(table.n_rows)), "empirical")
        else:
            rows = finite_rows(table, self.support, n_probes)
        if rows is None:
            return None
        stochastic = self.behaviour.stochastic
        result = exact_verdict(self.oracle, *rows, stochastic, self.deck.labels, problem)
        if result is None or (stochastic and not result.leaks and not self._check_samples()):
            return None
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
            self.results["influence"] = influence(self.oracle, self.deck, self.rng)
        return result

    def probe(self, n_probes: int, n_draws: int) -> None:
        """Look for a leak with a limited number of questions."""
        if not self.behaviour.stochastic:
            self._probe_deterministic(n_probes)
            # A different answer that does not come again may be rare chance; then test for that.
            if self.leaks or not self.results.pop("n_unconfirmed") or self.behaviour.company:
                return
            self.cautions.append(
                "Some answers changed when the same rows were asked about again; the selector was "
                "therefore also tested as one that draws its masks."
            )
        elif self._trusts_probabilities() and self.support != "empirical":
            # The probability of a mask sums over the orders that lead to it, so it is dear.
            self._probe_probabilities(max(n_probes // 4, 1))
            if self.leaks or self._check_samples():
                return
        self._probe_draws(n_draws)

    def _probe_deterministic(self, n_probes: int) -> None:
        found = search(self.oracle, self.deck, self.support, n_probes, self.rng)
        self.results |= {
            "n_probes": found.n_uniform + found.n_adaptive,
            "n_uniform": found.n_uniform,
            "n_uniform_changed": found.n_uniform_changed,
            "influence": found.influence,
            "n_unconfirmed": found.n_unconfirmed,
        }
        if found.witness is not None:
            self.leaks, self.evidence = True, "proof"
            self.results["witness"] = found.witness
            self.results["support"] = found.witness.support
        elif self.support == "empirical":
            n = found.n_real_pairs
            self.results["n_probes"] = n
            if n < self.deck.n_rows / 2:
                self.cautions.append(
                    f"Only {n:,} of {self.deck.n_rows:,} rows agree with another row on all that "
                    "is revealed, so little could be tested on the empirical support."
                )

    def _probe_probabilities(self, n_probes: int) -> None:
        found = probe_probabilities(self.oracle, self.deck, n_probes, self.rng)
        self.results |= {
            "n_probes": found.n_probes + found.n_aimed,
            "n_uniform": found.n_probes,
            "n_uniform_changed": found.n_changed,
        }
        if found.witness is not None:
            self.leaks, self.evidence = True, "proof"
            self.results["witness"] = found.witness

    def _check_samples(self) -> bool:
        agrees = follows_samples(self.oracle, self.deck, self.false_alarm_rate, self.rng)
        if not agrees:
            self.cautions.append(_UNFAITHFUL)
        return agrees

    def _trusts_probabilities(self) -> bool:
        return self.oracle.selector.has_probability and _UNFAITHFUL not in self.cautions

    def _probe_draws(self, n_draws: int) -> None:
        found = None
        with self.oracle.until_late():  # a test that is cut short says nothing
            found = probe_stochastic(
                self.oracle, self.deck, self.support, n_draws, self.false_alarm_rate, self.rng
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

    def report(self, gaps: Gaps | None, seconds: float, partial: bool) -> AuditReport:
        """Put the pieces together."""
        table, selector = self.oracle.table, self.oracle.selector
        self.results.pop("n_unconfirmed", None)
        verdict = LEAKS if self.leaks else NO_LEAK_FOUND
        if selector.claims_leak_free and not self.leaks:
            verdict = LEAK_FREE
        elif selector.claims_leak_free:
            self.cautions.append(
                "The selector claims to be leak-free by construction; the probes refute it."
            )
        if gaps is not None:
            self.cautions += gaps.cautions
        if gaps is not None and gaps.significant and not self.leaks:
            told = ", ".join(f"`{gap.target}`" for gap in gaps.significant[:4])
            self.cautions.append(
                f"The masks help to predict {told}, though no probe found a leak. Either a leak is "
                "confined to rows that the probes missed, or the models of the predictive gaps "
                "are biased here."
            )
        if self.oracle.out_of_time:
            self.cautions.append("The time allowed was over before all probes were made.")
        if partial:
            self.cautions.append(f"A random part of the data was used: {table.n_rows:,} rows.")
        return AuditReport(
            verdict=verdict,
            evidence=self.evidence,
            exact=self.is_exact,
            selector=selector.name,
            stochastic=self.behaviour.stochastic,
            n_rows=table.n_rows,
            n_columns=table.n_columns,
            mean_features=float(self.behaviour.masks.sum(axis=1).mean()),
            gaps=gaps,
            cautions=self.cautions,
            n_calls=self.oracle.n_calls,
            n_asked=self.oracle.n_rows,
            seconds=seconds,
            false_alarm_rate=self.false_alarm_rate,
            **{"witness": None, **self.results},
        )
