"""Views of results: figures, pages and other documents, which later layers make."""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str, *args: Any, **options: Any) -> Any:
    """Call a function of a later layer, which is imported on this call.

    Parameters
    ----------
    name : str
        Module and function, such as ``"plots:plot_narrative"`` for `suwr.plots.plot_narrative`.
    *args, **options
        Arguments of the function.
    """
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"suwr.{module}"), function)(*args, **options)
