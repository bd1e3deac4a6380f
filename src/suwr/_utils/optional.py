"""Imports of optional dependencies."""

import importlib
from types import ModuleType

from suwr.exceptions import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module, or raise an error that names the extra which installs it.

    Parameters
    ----------
    module : str
        Name of the module, such as ``"matplotlib.pyplot"``.
    extra : str
        The extra of suwr that installs the module.
    purpose : str
        Subject of the error message, such as ``"Plotting"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'suwr[{extra}]'"
        ) from error
