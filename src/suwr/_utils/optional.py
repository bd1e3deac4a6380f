"""Imports of optional dependencies, with an error that says how to install them."""

import importlib
from types import ModuleType

from suwr.exceptions import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import ``module`` or say which extra brings it.

    Parameters
    ----------
    module : str
        Name of the module, such as ``"matplotlib.pyplot"``.
    extra : str
        The extra of suwr that installs it.
    purpose : str
        What the caller needs it for, as the subject of a sentence: ``"Plotting"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'suwr[{extra}]'"
        ) from error
