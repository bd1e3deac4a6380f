"""Digests of encoded rows, by which `certify` recognises training rows and repeated rows.

The digests of the training rows stay in memory. In a model file they would tell everybody who has a
row whether the model was fitted on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import hypergeom
from torch import Tensor

from suwr._utils.validation import warn_caller
from suwr.exceptions import CertificationWarning
from suwr.training.data import Rows

__all__ = ["row_digests", "training_digests", "warn_known_rows"]

Digests = NDArray[np.uint64]
# Training rows whose digests are kept, drawn at random from more.
MAX_DIGESTS = 10_000
# Probability of a wrong warning if calibration rows are new rows.
SIGNIFICANCE = 1e-3


def row_digests(values: Tensor) -> Digests:
    """Return a 64-bit digest of each encoded row.

    Parameters
    ----------
    values : Tensor of shape (n, n_values)
    """
    rows = np.ascontiguousarray(values.cpu().numpy())
    data = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return np.frombuffer(data, dtype=np.uint64)


def training_digests(parts: Sequence[Rows]) -> Digests:
    """Return the digests of the rows of a fit, of a random sample if there are many."""
    total = sum(map(len, parts))
    # The seed is fixed: the generator of the fit draws the same numbers as without.
    chosen = np.random.RandomState(0).permutation(total)[:MAX_DIGESTS]
    found, first = [], 0
    for rows in parts:
        here = np.sort(chosen[(chosen >= first) & (chosen < first + len(rows))]) - first
        found.append(row_digests(rows.values[torch.as_tensor(here, device=rows.values.device)]))
        first += len(rows)
    return np.concatenate(found)


def warn_known_rows(digests: Digests, training: Digests | None) -> None:
    """Warn if calibration rows are training rows, or mostly one and the same row.

    Rows of few distinct values equal training rows by chance. If they are new rows, they do so as
    often as one training row equals another; the test is Fisher's exact one.

    Parameters
    ----------
    digests : ndarray of shape (n,)
        Of the calibration rows.
    training : ndarray of shape (m,) or None
        Of the training rows; None if they are not known.
    """
    n = len(digests)
    most = int(np.unique(digests, return_counts=True)[1].max())
    if n > 1 and most > n / 2:
        warn_caller(
            f"{most:,} of the {n:,} calibration rows are the same row. The guarantee holds only if "
            "new rows are this one as often.",
            CertificationWarning,
        )
    if training is None:
        return
    known = int(np.isin(digests, training).sum())
    counts = np.unique(training, return_counts=True)[1]
    m, repeated = len(training), int(counts[counts > 1].sum())
    if hypergeom.sf(known - 1, n + m, known + repeated, n) <= SIGNIFICANCE:
        warn_caller(
            f"{known:,} of the {n:,} calibration rows equal rows that the model was fitted on. The "
            "guarantee requires rows that 'fit' has not used.",
            CertificationWarning,
        )
