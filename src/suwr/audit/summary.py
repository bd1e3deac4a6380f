"""The text of a report.

A sentence about the leaks that would have been detected is written only where this power is known:
for uniform probes of reproducible masks, and for independent draws.
"""

from suwr._utils.text import printable
from suwr.audit.gaps import PredictiveGap
from suwr.audit.report import AuditReport
from suwr.audit.witness import Witness

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
