"""Warnings that point at the user's code."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_caller"]

_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning at the place of the nearest caller outside of this package.

    A fixed ``stacklevel`` names a line of the package as soon as a method calls its base class.

    Parameters
    ----------
    message : str
    category : type of Warning
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_own(module: object) -> bool:
    return module == _PACKAGE or str(module).startswith(f"{_PACKAGE}.")
