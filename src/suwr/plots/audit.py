"""The figure of an audit: the witness and the leakage per feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from suwr._utils.validation import require
from suwr.plots._style import BLUE, GREY, ORANGE, VERMILLION, plain

if TYPE_CHECKING:
    from suwr.auditing import AuditReport, Witness

_LEAK = VERMILLION
_CONDITIONAL = ORANGE
_NO_LEAK = BLUE
_REVEALED = "#CFE3F1"
_CHANGED = "#F8D9C4"
_MAX_BARS = 10
_MAX_COLUMNS = 7


def plot_audit(report: AuditReport, ax: Any = None) -> Any:
    """Draw the leakage of each feature, and the witness if there is one.

    Parameters
    ----------
    report : AuditReport
        Result of :func:`suwr.audit`.
    ax : matplotlib Axes, default=None
        Axes for the bars. If None, a new figure is created, which also shows the witness as a
        table.

    Returns
    -------
    matplotlib Axes
        The axes with the bars.

    Examples
    --------
    >>> import numpy as np
    >>> import suwr
    >>> from suwr.plots import plot_audit
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> report = suwr.audit(lambda X: X > X[:, ::-1], X, gaps=False, random_state=0)
    >>> plot_audit(report).figure.get_suptitle()
    '<lambda>: leaks if columns vary independently'
    """
    title = f"{report.selector}: {report.verdict}"
    if ax is not None:
        _bars(report, ax)
        ax.set_title(title, loc="left", fontweight="bold")
        return ax
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    n_bars = len(_bar_data(report)[0])
    height = 1.0 + 0.34 * n_bars if n_bars else 1.6
    if report.witness is None:
        figure, ax = plt.subplots(figsize=(7.6, height + 0.5), layout="constrained")
    else:
        figure, (top, ax) = plt.subplots(
            2, 1, figsize=(7.6, height + 2.2), height_ratios=[1.5, height], layout="constrained"
        )
        _witness_table(report.witness, top)
    _bars(report, ax)
    figure.suptitle(
        title,
        x=0.01,
        ha="left",
        fontweight="bold",
        fontsize=14,
        color=_colour(report),
    )
    return ax


def _colour(report: AuditReport) -> str:
    if report.leaks_if_independent:
        return _CONDITIONAL
    return _LEAK if report.leaks else _NO_LEAK


def _bar_data(report: AuditReport) -> tuple[list[str], list[float], list[tuple[float, float]]]:
    """Return labels, lengths and intervals of the bars, the longest first."""
    if report.gaps is not None:
        gaps = ([report.gaps.label] if report.gaps.label is not None else []) + sorted(
            report.gaps.features, key=lambda g: -g.leak
        )[: _MAX_BARS - 1]
        return (
            ["the label" if g.target == "label" else g.target for g in gaps],
            [g.leak for g in gaps],
            [(g.low, g.high) for g in gaps],
        )
    shares = list(report.influence.items())[:_MAX_BARS]
    return [name for name, _ in shares], [value for _, value in shares], []


def _bars(report: AuditReport, ax: Any) -> None:
    names, lengths, intervals = _bar_data(report)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if not names:
        _clean_bar(report, ax)
        return
    place = np.arange(len(names))[::-1]
    top = max([*lengths, *(high for _, high in intervals), 0.1 if intervals else 1e-6])
    # Strongly negative gaps are estimation error of the second model and are clipped.
    left = max(1.1 * min([0.0, *(low for low, _ in intervals)]), -0.25 * top)
    for p, length, interval in zip(
        place, lengths, intervals or [(v, v) for v in lengths], strict=True
    ):
        colour = _LEAK if interval[0] > 0 else GREY
        ax.plot([0.0, length], [p, p], color=colour, linewidth=9, alpha=0.25, solid_capstyle="butt")
        if intervals:
            ax.plot(interval, [p, p], color=colour, linewidth=2.2, solid_capstyle="butt")
        marker = "o" if interval[0] > 0 else "D" if length > left else "<"
        ax.plot(max(length, left), p, marker=marker, color=colour, markersize=7, clip_on=False)
        ax.annotate(
            f"{length:.2g}" if not intervals else f"{length:.2f}".replace("-0.00", "0.00"),
            (max(interval[1], 0.0), p),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
        )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(place, [plain(name) for name in names])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlim(left, 1.14 * top)
    ax.set_xlabel(_axis_label(report))


def _clean_bar(report: AuditReport, ax: Any) -> None:
    """Draw all that was checked as one bar, since no feature changed any decision."""
    what = "rows" if report.exact else "probes" if report.n_uniform else "masks"
    colour = GREY if report.leaks else _NO_LEAK
    ax.barh([0], [100], 0.6, color=colour)
    said = f"{report.n_probes:,} of {report.n_probes:,} {what}"
    ax.text(50, 0, said, ha="center", va="center", color="white", fontsize=13, fontweight="bold")
    ax.set_yticks([])
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"Share of the {what} in which hidden values changed no decision (%)")
    ax.set_title(_result(report), loc="left", fontsize=11)


def _axis_label(report: AuditReport) -> str:
    if report.gaps is not None:
        percent = f"{100 * report.gaps.confidence:.3g} %"
        return f"Leakage in bits, given the revealed values ({percent} intervals)"
    if report.stochastic:
        return "Change in the probability of a mask when this hidden feature is resampled"
    return "Fraction of probes in which resampling this hidden feature changed the mask"


def _result(report: AuditReport) -> str:
    if report.exact:
        return f"All {report.n_probes:,} possible rows were checked."
    if report.n_uniform:
        return (
            f"{report.n_probes:,} counterfactual probes. Leakage in at least "
            f"{100 * report.detectable_rate:.2g} % of them\nwould have been detected with 95 % "
            "probability."
        )
    return f"{report.n_probes:,} masks were sampled."


def _witness_table(witness: Witness, ax: Any) -> None:
    """Draw the two rows of a witness, with revealed, hidden and changed values marked."""
    ax.axis("off")
    changed = set(witness.changed)
    interest = [
        4 * (name in changed) + 2 * bool(a != b) + bool(a)
        for name, a, b in zip(witness.columns, witness.mask, witness.mask_other, strict=True)
    ]
    best = np.argsort(-np.array(interest), kind="stable")[:_MAX_COLUMNS]
    columns = sorted(int(j) for j in best if interest[j])
    rows = ((witness.x, witness.mask, " x "), (witness.x_other, witness.mask_other, " x′ "))
    cells = [[_cell(x[j]) for j in columns] for x, _, _ in rows]
    colours = [
        [
            _REVEALED if mask[j] else _CHANGED if witness.columns[j] in changed else "white"
            for j in columns
        ]
        for _, mask, _ in rows
    ]
    drawn = ax.table(
        cellText=cells,
        cellColours=colours,
        rowLabels=[name for _, _, name in rows],
        colLabels=[plain(witness.columns[j], 18) for j in columns],
        cellLoc="center",
        bbox=[0.05, 0.08, 0.95, 0.8],
    )
    drawn.auto_set_font_size(False)
    for (i, k), cell in drawn.get_celld().items():
        cell.set_fontsize(10)
        cell.set_edgecolor("#BBBBBB")
        if i > 0 and k >= 0:
            shown = bool(rows[i - 1][1][columns[k]])
            cell.get_text().set_fontweight("bold" if shown else "normal")
            cell.get_text().set_color("black" if shown else "#666666")
    if witness.probability is None or witness.probability_other is None:
        text = "The two rows agree on every value revealed of x, but their masks differ."
    else:
        text = (
            "The two rows agree on every revealed value, but the probability of the mask is "
            f"{witness.probability:.3g} for x and {witness.probability_other:.3g} for x′."
        )
    if witness.support == "product":
        text += " x′ combines values of several rows."
    ax.set_title(
        f"{text}\nBold on blue: revealed.  Grey: hidden.  Orange: hidden and different.",
        loc="left",
        fontsize=10,
    )


def _cell(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)
    return plain(text, 12)
