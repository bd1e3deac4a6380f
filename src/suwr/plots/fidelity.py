"""Figure of the fidelity of an explainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from suwr._utils.validation import check_choice
from suwr.plots._style import COLOURS, MARKERS, legend_above, new_axes, open_frame, plain

__all__ = ["plot_fidelity"]


class Curve(Protocol):
    """The part of a `suwr.explainer.fidelity.FidelityCurve` that is drawn."""

    @property
    def cost(self) -> Sequence[float]:
        """Mean cost."""

    @property
    def divergence(self) -> Sequence[float]:
        """KL divergence, or 1 - R²."""

    @property
    def agreement(self) -> Sequence[float]:
        """Agreement, or R²."""


class Result(Protocol):
    """The part of a `suwr.explainer.fidelity.Fidelity` that is drawn."""

    @property
    def curves(self) -> Mapping[str, Curve]:
        """Curves by name."""

    @property
    def regression(self) -> bool:
        """Whether outputs are values."""


def plot_fidelity(fidelity: Result, ax: Any = None, *, measure: str = "divergence") -> Any:
    """Draw the fidelity of an explainer, and of attributions, against mean cost.

    Parameters
    ----------
    fidelity : Fidelity
        Result of `SUWRExplainer.fidelity`.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    measure : {'divergence', 'agreement'}, default='divergence'
        'divergence' is the KL divergence, or 1 - R² for values; 'agreement' is the fraction of
        rows with the model's class, or R².

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explainer.fidelity import Fidelity, FidelityCurve
    >>> from suwr.plots import plot_fidelity
    >>> curve = FidelityCurve((0.0, 2.0), (0.5, 0.01), (0.6, 0.97))
    >>> plot_fidelity(Fidelity({"SUWR": curve}, 100, 10, False)).get_ylabel()
    'KL divergence (nats)'
    """
    check_choice(measure, "measure", "plot_fidelity", ("divergence", "agreement"))
    ax = new_axes(ax, (6.4, 4.2))
    for number, (name, curve) in enumerate(fidelity.curves.items()):
        style = number % len(COLOURS)
        ax.plot(
            curve.cost, getattr(curve, measure), color=COLOURS[style], marker=MARKERS[style],
            linewidth=2, linestyle="-" if name.startswith("SUWR") else "--", label=plain(name),
            zorder=3,
        )  # fmt: skip
    names = {
        ("divergence", False): "KL divergence (nats)",
        ("divergence", True): "1 − R²",
        ("agreement", False): "Agreement with the model",
        ("agreement", True): "R²",
    }
    ax.set_xlabel("Mean cost per row")
    ax.set_ylabel(names[measure, fidelity.regression])
    ax.set_xlim(left=0)
    if measure == "divergence":
        ax.set_ylim(bottom=0)
    open_frame(ax)
    legend_above(ax)
    return ax
