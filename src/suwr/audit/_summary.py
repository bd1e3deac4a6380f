"""An audit report, in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suwr.audit._gaps import Gap
    from suwr.audit._report import AuditReport

_SUPPORT = {
    "empirical": "Both are rows of the data (empirical support).",
    "product": (
        "The second row keeps the revealed values and takes hidden ones from other rows "
        "(product support)."
    ),
}


def summarize(report: "AuditReport") -> str:
    """The report in words, one paragraph for each thing that was found."""
    parts = [_headline(report), *_witness(report), *_search(report), *_influence(report)]
    parts += [*_bits(report), _cost(report)]
    if report.cautions:
        parts.append("Mind that:\n" + "\n".join(f"- {caution}" for caution in report.cautions))
    return "\n\n".join(parts)


def _headline(report: "AuditReport") -> str:
    kind = "draws its masks" if report.stochastic else "is deterministic"
    if report.support == "masks only":
        kind = "is known by its masks only"
    return (
        f"Audit of {report.selector}: {report.verdict.upper()}\n"
        f"{report.n_rows:,} rows, {report.n_columns} columns, "
        f"{report.mean_features:.1f} revealed on average; the selector {kind}."
    )


def _witness(report: "AuditReport") -> list[str]:
    w = report.witness
    if w is None:
        return []
    shown = ", ".join(w.revealed[:6]) + (", …" if len(w.revealed) > 6 else "") or "nothing"
    if w.probability is not None and w.probability_other is not None:
        about = "" if report.evidence == "proof" else "about "
        text = (
            f"These two rows agree on everything that the mask reveals ({shown}), yet it has "
            f"probability {about}{w.probability:.4g} for the first and {about}"
            f"{w.probability_other:.4g} for the second:"
        )
    else:
        text = (
            f"Proof: these two rows agree on everything that is revealed of the first ({shown}), "
            "yet the selector treats them differently. Hidden values are in brackets."
        )
    return [f"{text}\n\n{w.table()}\n\n{_SUPPORT[w.support]}"]


def _search(report: "AuditReport") -> list[str]:
    if report.support == "masks only":
        return [
            "Only rows and masks were given, so nothing could be asked: there are no "
            "counterfactual probes here, and the verdict rests on predictive gaps alone."
        ]
    parts = []
    if report.exact:
        parts.append(
            "All possible rows were examined: on this support the verdict is final."
            if not report.leaks
            else "All possible rows were examined."
        )
        amounts = ", ".join(
            f"{value:.3f} bits about the {'label' if name == 'label' else 'hidden features'}"
            for name, value in report.exact_bits.items()
        )
        parts.append(f"Beyond the revealed values the selection tells exactly {amounts}.")
    if report.n_uniform and report.leaks:
        parts.append(
            f"Redrawing hidden values changed the selection in {100 * report.rate:.2g} % of "
            f"{report.n_uniform:,} blind probes."
        )
    if report.n_uniform and not report.leaks:
        parts.append(
            f"{report.n_probes:,} counterfactual probes on {report.support} support, "
            f"{report.n_uniform:,} of them blind, found nothing. A leak that touches at least "
            f"{100 * report.detectable_rate:.2g} % of the (row, redraw) pairs would have been "
            "found with 95 % probability by the blind ones alone."
        )
    if report.finding:
        parts.append(f"Tested on fresh draws: {report.finding} (p = {report.p_value:.2g}).")
    elif report.detectable_shift is not None and not report.leaks:
        parts.append(
            f"{report.n_probes:,} masks were drawn. A probability that a hidden unit shifts by "
            f"{report.detectable_shift:.3f} or more between its lower and upper half would have "
            f"been found with 95 % probability; false alarms are held at "
            f"{100 * report.false_alarm_rate:.2g} %."
        )
    return ["\n".join(parts)] if parts else []


def _influence(report: "AuditReport") -> list[str]:
    if not report.influence:
        return []
    top = list(report.influence.items())[:5]
    what = "shifted a probability by" if report.stochastic else "changed the mask in"
    unit = "" if report.stochastic else " %"
    scale = 1 if report.stochastic else 100
    listed = ", ".join(f"`{name}` {scale * value:.2g}{unit}" for name, value in top)
    return [f"Redrawn alone, while hidden, these {what}: {listed}."]


def _bits(report: "AuditReport") -> list[str]:
    gaps = report.gaps
    if gaps is None:
        return []
    percent = f"{100 * gaps.confidence:.3g} % interval"
    lines = []
    if gaps.label is not None:
        g = gaps.label
        verb = "tells" if g.significant else "tells nothing measurable about the label:"
        about = " about the label beyond the revealed values" if g.significant else ""
        lines.append(
            f"The selection {verb} {g.leak:.2f} bits{about} ({percent} {g.low:.2f} to "
            f"{g.high:.2f}). Revealed values alone tell {g.revealed:.2f} bits (EVAL-X), the mask "
            f"alone {g.mask_alone:.2f}, both {g.both:.2f}."
        )
    told = [g for g in gaps.features if g.significant]
    lines += [_feature_line(g, percent) for g in told[:8]]
    if len(told) > 8:
        lines.append(f"… and something about {len(told) - 8} more.")
    if not told and gaps.features:
        lines.append("The selection tells nothing measurable about any hidden feature.")
    return ["\n".join(lines)] if lines else []


def _feature_line(g: "Gap", percent: str) -> str:
    return (
        f"The selection tells {g.leak:.2f} bits about `{g.target}`, which is not among the "
        f"selected features ({percent} {g.low:.2f} to {g.high:.2f}; hidden in {g.n_rows:,} rows)."
    )


def _cost(report: "AuditReport") -> str:
    if report.support == "masks only":
        return f"Cost: {report.seconds:.1f} s."
    return (
        f"Cost: {report.n_asked:,} rows in {report.n_calls:,} calls of the selector; "
        f"{report.seconds:.1f} s."
    )
