"""A table with columns of every type, and raw cells that do not fit the types."""

import datetime
import decimal

import numpy as np
import pandas as pd
import torch

from suwr import SUWRClassifier

#: Texts that a file may hold in any column.
TEXTS = ["maybe", "x", "", "NA", "1e400", "1" + "0" * 400, "1_000", "2020-01-01", "7", "True",
         "inf", "9007199254740993", "a;b", " ", "€"]  # fmt: skip
#: Objects that an array or a data frame may hold in any column.
OBJECTS = [*TEXTS, None, np.nan, pd.NA, pd.NaT, 7, -1.5, 1e30, np.inf, 10**400, 10**5000, True,
           np.bool_(False), datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"),
           np.datetime64("2020-01-01", "ns"), np.timedelta64(5, "ns"), {"a": 1}, [1, 2], b"maybe",
           np.ones(3), 1j, decimal.Decimal("sNaN"), object()]  # fmt: skip


def mixed_table(n=160, seed=0):
    """Return numbers, booleans and text; the categories of 'code' look like numbers."""
    rng = np.random.RandomState(seed)
    X = pd.DataFrame(
        {
            "age": rng.randint(18, 80, n).astype(float),
            "member": rng.rand(n) < 0.5,
            "code": rng.choice(["1", "2", "x"], n),
            "city": rng.choice(["Oslo", "Rome"], n),
            "level": pd.Categorical(rng.choice([1, 2, 3], n)),
            "size": rng.randn(n),
        }
    )
    risk = (X["code"] == "1") + 2.0 * X["member"] + (X["age"] > 50) + 0.1 * rng.randn(n)
    return X, np.where(risk > 1.5, "high", "low")


def fit_random_policy(X, y):
    """Return a model with random weights that reveals every column in some rows, few in each.

    The number of revealed columns differs between rows.
    """
    model = SUWRClassifier(
        max_epochs=1, hidden_size=16, max_steps=3, training={"n_bins": 8}, random_state=0
    ).fit(X, y)

    def accept():
        masks = model.select(X)
        return masks.any(axis=0).all() and len(np.unique(masks.sum(axis=1))) > 1

    return randomize(model, accept)


def randomize(model, accept):
    """Draw the weights of a fitted model until a condition holds; return the model."""
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.policy_.network.parameters():
                parameter.normal_(0, 0.6, generator=generator)
        if accept():
            return model
    raise AssertionError("No seed gives weights that satisfy the condition.")


def poisoned_cells(X, mask, cells, seed=0):
    """Return the columns of a frame as lists, with every unrevealed cell replaced."""
    rng = np.random.RandomState(seed)
    columns = {name: X[name].tolist() for name in X.columns}
    for number, name in enumerate(X.columns):
        for row in np.flatnonzero(~mask[:, number]):
            columns[name][row] = cells[rng.randint(len(cells))]
    return columns


def as_object_array(columns):
    """Return columns as an array of objects."""
    array = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=object)
    for number, cells in enumerate(columns.values()):
        for row, cell in enumerate(cells):
            array[row, number] = cell
    return array


def as_object_frame(columns):
    """Return columns as a data frame of objects."""
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def as_text(columns):
    """Return the cells of columns as texts; None where they are missing."""
    return {
        name: [
            None if cell is None or cell is pd.NA or cell != cell else str(cell) for cell in cells
        ]
        for name, cells in columns.items()
    }


def unrecorded_table(n):
    """Rows of six columns, of which three cells in ten were not recorded, and their classes."""
    X, y = mixed_table(n)
    rng = np.random.RandomState(0)
    X = X[["age", "code", "city", "size"]].assign(a=rng.randn(n), b=rng.randn(n))
    return X.mask(rng.rand(*X.shape) < 0.3), y
