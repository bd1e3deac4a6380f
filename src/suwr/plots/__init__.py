"""Figures. Nothing outside of this package imports matplotlib."""

from suwr.plots.fronts import plot_fronts

__all__ = ["plot_fronts"]
