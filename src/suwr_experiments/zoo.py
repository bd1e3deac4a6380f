"""Selectors whose truth is known, to test auditors with.

Each :class:`Specimen` makes a selector and data for a seed, and says whether the selector leaks.
``SPECIMENS`` holds them all by name; add your own with :func:`register`.

Examples
--------
>>> specimen = SPECIMENS["mask encodes the label"]
>>> selector, X, y = specimen.make(0)
>>> selector(X).shape == X.shape, specimen.leaks
(True, True)
"""

from suwr_experiments.zoo_clean import CLEAN
from suwr_experiments.zoo_leaky import LEAKY
from suwr_experiments.zoo_policies import TreeWalker
from suwr_experiments.zoo_specimen import Specimen, Zoo, gaussian_rows

__all__ = ["SPECIMENS", "Specimen", "TreeWalker", "gaussian_rows", "register"]

SPECIMENS = Zoo({**CLEAN, **LEAKY})
register = SPECIMENS.register
