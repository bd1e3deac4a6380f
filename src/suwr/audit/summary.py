"""The text of a report.

A sentence about the leaks that would have been detected is written only where this power is known:
for uniform probes of reproducible masks, and for independent draws.
"""

from suwr._utils.text import printable
from suwr.audit.gaps import PredictiveGap
from suwr.audit.report import AuditReport

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
        if report.n_draws:
            conclusive = "; the stated probabilities do not leak"
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
    if report.finding:
        parts.append(_describe_finding(report))
    elif not report.leaks and report.stochastic:
        parts += [*_describe_stated_probabilities(report), *_describe_draws(report)]
    elif not report.leaks:
        parts += [*_describe_uniform_probes(report), *_describe_draws(report)]
    return ["\n".join(parts)] if parts else []


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
    return [
        f"No significant difference in {report.n_draws:,} drawn masks. A shift of "
        f"{report.detectable_shift:.3f}{alone} in the probability of a mask or of "
        "revealing a unit, the same for all rows, between the lower and upper half of the values "
        "of a hidden unit, would have been detected with 95 % probability (false-alarm rate "
        f"{100 * report.false_alarm_rate:.2g} %). The power for other shifts is unknown."
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
