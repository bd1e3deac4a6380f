"""Tables with a known solution or cells of every type, and cells that do not fit the types."""

import datetime
import decimal

import numpy as np
import pandas as pd


def one_column(n=400, d=5, seed=0):
    """Column 2 determines the class and the value; the other columns are noise."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d)
    return X, (X[:, 2] > 0).astype(int), 3.0 * X[:, 2] + 10.0


def switch(n=1200, seed=0):
    """Four classes: column 0 determines the pair, column 1 or 2 the class; column 3 is noise.

    Column 0 has ln 2 nats of information and columns 1 and 2 half as much, so that a greedy policy
    reveals column 0 first.
    """
    rng = np.random.RandomState(seed)
    X = rng.choice([-1.0, 1.0], size=(n, 4))
    y = np.where(X[:, 0] > 0, X[:, 1] > 0, 2 + (X[:, 2] > 0))
    return X, y.astype(int)


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


#: Cells that no column accepts, or that look like other values.
WRONG_TYPES = [{"a": [1]}, [2], "zqx", True, -1.5, 10**30, None, {}, "\ud800"]


def poisoned_rows(rows, mask, seed):
    """The rows, dicts by column, with other values in the cells that are not in the mask."""
    return [
        {
            name: value if mask[i, j] else WRONG_TYPES[(i + j + seed) % len(WRONG_TYPES)]
            for j, (name, value) in enumerate(row.items())
        }
        for i, row in enumerate(rows)
    ]


GOOD = ["A delight from start to end.", "Wonderful acting!", "I would see it again."]

BAD = ["A waste of time.", "Dreadful acting!", "I left before the end."]

NEUTRAL = [
    "It was raining.", "We sat in the third row.", "The film has two parts.",
    "There is a dog in it.", "My brother came along.", "It lasts two hours.",
]  # fmt: skip


def reviews(n, seed=0):
    """Return texts of two to seven sentences, at least one of which tells the label."""
    rng = np.random.RandomState(seed)
    labels = rng.choice(["bad", "good"], size=n)
    texts = []
    for label in labels:
        sentences = list(rng.choice(NEUTRAL, size=rng.randint(1, 6), replace=False))
        telling = GOOD if label == "good" else BAD
        sentences.insert(rng.randint(len(sentences) + 1), str(rng.choice(telling)))
        texts.append(" ".join(sentences))
    return texts, labels
