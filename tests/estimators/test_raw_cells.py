"""Raw cells that were not revealed change nothing and raise nothing, in every kind of table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from helpers.models import fit_random_policy, randomize
from helpers.tables import (
    OBJECTS,
    TEXTS,
    as_object_array,
    as_object_frame,
    as_text,
    mixed_table,
    poisoned_cells,
)
from suwr import SUWRClassifier
from suwr.baselines import AllFeaturesClassifier, CAEClassifier, L2XClassifier
from suwr.data.frame import arrow_to_pandas
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.verify import poison_check
from suwr.exceptions import TableError

KINDS = {
    "pandas": (OBJECTS, as_object_frame),
    "object array": (OBJECTS, as_object_array),
    "nested lists": (OBJECTS, lambda columns: as_object_array(columns).tolist()),
    "pandas text": (TEXTS, lambda columns: pd.DataFrame(as_text(columns))),
    "polars": (TEXTS, lambda columns: pl.DataFrame(as_text(columns))),
    "pyarrow": (TEXTS, lambda columns: pl.DataFrame(as_text(columns)).to_arrow()),
    "array of text": (TEXTS, lambda columns: np.array(list(as_text(columns).values())).T),
}


@pytest.fixture(scope="module")
def unnamed_model():
    X, y = mixed_table()
    return fit_random_policy(X.to_numpy(dtype=object), y)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_cells_change_nothing(kind, mixed_model, unnamed_model, n_seeds):
    cells, build = KINDS[kind]
    named = kind not in ("object array", "nested lists", "array of text")
    model = mixed_model if named else unnamed_model
    X = mixed_table(seed=1)[0]
    clean = X if named else X.to_numpy(dtype=object)
    mask, probability = model.select(clean), model.predict_proba(clean)
    texts = [narrative.text() for narrative in model.explain(clean)]
    assert (~mask).sum() > len(X)
    assert mask.any(axis=0).all()
    for seed in range(3 * n_seeds):
        bad = build(poisoned_cells(X, mask, cells, seed))
        np.testing.assert_array_equal(model.select(bad), mask)
        np.testing.assert_array_equal(model.predict_proba(bad), probability)
        np.testing.assert_array_equal(
            model.predict_masked(bad, mask), model.predict_masked(clean, mask)
        )
        assert [narrative.text() for narrative in model.explain(bad)] == texts
        np.testing.assert_array_equal(model.cost(bad), model.cost(clean))
        sampled = model.mask_probability(bad, mask, policy="sampled")
        np.testing.assert_array_equal(
            sampled, model.mask_probability(clean, mask, policy="sampled")
        )


@pytest.mark.parametrize("library", [lambda X: X, lambda X: X.to_numpy(dtype=object), pl.DataFrame])
def test_poison_check_starts_from_the_raw_table(library, mixed_model, unnamed_model):
    X = library(mixed_table(seed=1)[0].astype({"level": float}))
    model = unnamed_model if isinstance(X, np.ndarray) else mixed_model
    report = poison_check(model, X, random_state=0)
    assert report.passed
    assert report.n_cells > 10 * report.n_rows


def test_poison_check_notices_types_inferred_from_the_table(mixed_model, monkeypatch):
    """A reader that infers the type of a column, as before, reads other rows differently."""
    parse = type(mixed_model.encoder_).parse

    def inferring(self, columns, rows=None):
        """Compare the texts of a column with the categories if a cell is not of its type."""
        table = parse(self, columns, rows)
        for number in table.invalid:
            table.columns[number] = table.columns[number].astype(str)
            if self.codes[number].categories is None:
                table.columns[number] = np.full(table.n_rows, np.nan)
        return table

    monkeypatch.setattr(type(mixed_model.encoder_), "parse", inferring)
    assert not poison_check(mixed_model, mixed_table(seed=1)[0], random_state=0).passed


def test_categories_that_look_like_numbers(mixed_model):
    """A part of a table without the letter category may hold integers."""
    X = mixed_table(seed=2)[0]
    part = X[X["code"] != "x"]
    expected = mixed_model.predict_proba(X)[(X["code"] != "x").to_numpy()]
    for code in (part["code"], part["code"].astype(int), part["code"].astype(float)):
        np.testing.assert_array_equal(mixed_model.predict_proba(part.assign(code=code)), expected)


@pytest.mark.parametrize("cell", ["soon", 10**400, np.inf, {"a": 1}, pd.Timestamp(0)])
def test_a_revealed_cell_that_cannot_be_parsed_is_an_error(cell, mixed_model):
    X = mixed_table(seed=1)[0]
    mask = mixed_model.select(X)
    column = int(np.argmax(mask[:, :2].sum(axis=0)))
    row, name = int(np.flatnonzero(mask[:, column])[3]), X.columns[column]
    bad = X.astype(object)
    bad.iat[row, column] = cell
    bad.iloc[0, ~mask[0]] = "secret"
    where = rf"Row {row} of column '{name}' must be .*, as in fit\. Got .* instead"
    for call in (mixed_model.predict, mixed_model.select, mixed_model.explain, mixed_model.cost,
                 lambda X: mixed_model.predict_masked(X, mask),
                 lambda X: mixed_model.mask_probability(X, mask),
                 lambda X: mixed_model.mask_probability(X, mask, policy="sampled")):  # fmt: skip
        with pytest.raises(TableError, match=where) as caught:
            call(bad)
        assert "secret" not in str(caught.value)
    mixed_model.predict_masked(bad, np.zeros((1, 6), dtype=bool))


def test_errors_name_the_index_of_a_frame(mixed_model):
    X = mixed_table(seed=1)[0].astype(object)
    row, revealed = np.argwhere(mixed_model.select(X))[40]
    X.iat[row, revealed] = object()
    with pytest.raises(TableError, match=f"Row {row} of column"):
        mixed_model.explain(X.iloc[[row]])


@pytest.mark.parametrize("shape", [3, (2, 2, 2)])
def test_errors_about_the_shape_quote_no_cell(shape, unnamed_model):
    with pytest.raises(ValueError, match=r"D array|dim 3") as caught:
        unnamed_model.predict(np.full(shape, 123.25).tolist())
    assert "123.25" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (10**400, "Row 2 of column 'x1' is an integer of 1329 bits, which is too large"),
        ({"a": 1}, "Row 2 of column 'x1' is a value of the type dict, which is not supported"),
        (pd.Timestamp(0), "Row 2 of column .x1. is a value of the type Timestamp.* Replace dates"),
        ("a", "row 0 is the number 1.0, row 2 is the string .a."),
        (True, "row 0 is the number 1.0, row 2 is the boolean True"),
        (np.inf, "infinity in column 'x1', row 2"),
    ],
)
def test_fit_checks_every_cell(cell, message):
    X = np.arange(12.0).reshape(6, 2).astype(object)
    X[2, 1] = cell
    for table in (X, X.tolist()):
        with pytest.raises(TableError, match=message):
            SUWRClassifier().fit(table, [0, 1] * 3)


def test_missing_values_of_pandas_in_arrays():
    X = np.random.RandomState(0).randn(20, 2).astype(object)
    X[3, 1] = pd.NA
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 4}).fit(X, [0, 1] * 10)
    assert model.encoder_.codes[1].has_missing
    other = X.copy()
    other[3, 1] = None
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(other))


def test_baselines_check_the_cells_that_they_read():
    X, y = mixed_table(60)
    bad = X.assign(age=X["age"].astype(object))
    bad.loc[5, "age"] = "old"
    for kind in (AllFeaturesClassifier, L2XClassifier):
        model = kind(max_epochs=1, hidden_size=4, random_state=0).fit(X, y)
        for call in (model.predict, model.select) if kind is L2XClassifier else (model.predict,):
            with pytest.raises(TableError, match="Row 5 of column 'age'"):
                call(bad)
    model = CAEClassifier(max_epochs=1, hidden_size=4, max_steps=1, random_state=0).fit(X, y)
    unused = X.columns[~model.select(X)[0]][0]
    bad = X.assign(**{unused: [object()] * len(X)})
    np.testing.assert_array_equal(model.predict_proba(bad), model.predict_proba(X))


def test_cells_observed_in_a_session_are_parsed_by_type(mixed_model):
    X = mixed_table(seed=1)[0]
    session, row = mixed_model.acquire(), X.iloc[0]
    while not session.done:
        session.observe({name: str(row[name]) for name in session.next_columns})
    steps = mixed_model.explain(X.iloc[:1])[0].steps
    assert session.narrative().steps == steps


def _raise(*_, **__):
    raise RuntimeError("A hidden cell was used.")


_METHODS = dict.fromkeys(
    ("__array__", "__bool__", "__eq__", "__float__", "__hash__", "__index__", "__int__", "__iter__",
     "__len__", "__ne__", "__str__", "bit_length", "is_integer", "isascii", "lower", "strip"),
    _raise,
)  # fmt: skip


@pytest.mark.parametrize("base", [object, str, float, int, bytes])
@pytest.mark.parametrize("kind", ["pandas", "object array", "nested lists"])
def test_no_method_of_a_hidden_cell_is_relied_on(base, kind, mixed_model, unnamed_model):
    cell = type("Hostile", (base,), _METHODS)()
    named = kind == "pandas"
    model = mixed_model if named else unnamed_model
    X = mixed_table(40, seed=1)[0]
    clean = X if named else X.to_numpy(dtype=object)
    bad = KINDS[kind][1](poisoned_cells(X, model.select(clean), [cell]))
    np.testing.assert_array_equal(model.predict_proba(bad), model.predict_proba(clean))
    assert model.explain(bad).to_json() == model.explain(clean).to_json()


@pytest.mark.parametrize("cell", [[1, 2], (1,), np.ones(3)], ids=str)
@pytest.mark.parametrize("kind", ["pandas", "object array", "nested lists"])
def test_a_hidden_column_of_sequences(cell, kind, mixed_model, unnamed_model):
    """numpy would convert sequences of equal length to an array of more dimensions."""
    named = kind == "pandas"
    model = mixed_model if named else unnamed_model
    X = mixed_table(seed=1)[0]
    mask = model.select(X if named else X.to_numpy(dtype=object))
    column = int(mask.mean(axis=0).argmin())
    X = X[~mask[:, column]].reset_index(drop=True)
    columns = {name: X[name].tolist() for name in X.columns}
    columns[X.columns[column]] = [cell] * len(X)
    expected = model.predict_proba(X if named else X.to_numpy(dtype=object))
    np.testing.assert_array_equal(model.predict_proba(KINDS[kind][1](columns)), expected)


FAR = 4_000_000  # days, beyond the year 9999
WRONG_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, pa.array([b"ok", b"\xff"], pa.binary()).buffers()
)
# Columns with a cell that Arrow or Polars cannot convert.
UNREADABLE = {
    "date": pa.array([1, FAR], pa.date32()),
    "date64": pa.array([1, FAR * 86_400_000], pa.date64()),
    "timestamp": pa.array([1, 2**60], pa.timestamp("us")),
    "timestamp with zone": pa.array([1, 2**60], pa.timestamp("us", tz="Europe/Rome")),
    "duration": pa.array([1, 2**62], pa.duration("s")),
    "time": pa.array([1, 2], pa.time64("ns")),
    "text": WRONG_UTF8,
    "category": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), WRONG_UTF8),
    "list of dates": pa.array([[1], [FAR]], pa.list_(pa.date32())),
}
CONTAINERS = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "parquet": lambda table: arrow_to_pandas(table),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_hidden_cells_of_any_type_of_arrow_change_nothing(kind, container, mixed_model):
    if container == "polars" and kind in ("text", "category"):
        pytest.skip("polars refuses the column itself")
    X = mixed_table(seed=1)[0]
    mask = mixed_model.select(X)
    for number, name in enumerate(X.columns):
        hidden = np.flatnonzero(~mask[:, number])[:2]
        if len(hidden) < 2:
            continue
        table = pa.Table.from_pandas(X.iloc[hidden].astype({"level": float}), preserve_index=False)
        bad = CONTAINERS[container](table.set_column(number, name, UNREADABLE[kind]))
        np.testing.assert_array_equal(mixed_model.select(bad), mask[hidden])
        np.testing.assert_array_equal(
            mixed_model.predict_proba(bad), mixed_model.predict_proba(X.iloc[hidden])
        )
    revealed = np.flatnonzero(mask[:, 0])[:2]
    table = pa.Table.from_pandas(X.iloc[revealed].astype({"level": float}), preserve_index=False)
    bad = CONTAINERS[container](table.set_column(0, "age", UNREADABLE[kind]))
    with pytest.raises(TableError, match=r"Row 0 of column 'age' must be a finite number"):
        mixed_model.predict(bad)


NUMBERS = [np.nan, np.inf, -np.inf, 1e30, -1e308, 5e-324, 7.0, 0.0]
OTHER = {"f": NUMBERS, "b": [True, False, None], "O": ["zzz", "", None, "1", "1e999"]}


def native_columns(X, mask, seed):
    """The columns of a frame with other values of their own type in unrevealed cells."""
    rng, columns = np.random.RandomState(seed), {}
    for number, name in enumerate(X.columns):
        column = X[name].astype(str) if X[name].dtype.kind == "O" else X[name]
        kind = column.dtype.kind
        cells = column.tolist()
        for row in np.flatnonzero(~mask[:, number]):
            cells[row] = OTHER[kind][rng.randint(len(OTHER[kind]))]
        columns[name] = cells
    return columns


def as_polars(columns):
    types = {bool: pl.Boolean, float: pl.Float64, str: pl.String}
    first = {name: next(c for c in cells if c is not None) for name, cells in columns.items()}
    return pl.DataFrame(columns, schema={name: types[type(c)] for name, c in first.items()})


def as_dictionaries(columns):
    table = as_polars(columns).to_arrow()
    for number, name in enumerate(table.column_names):
        if "string" in str(table.schema.field(name).type):
            encoded = table.column(name).dictionary_encode()
            table = table.set_column(number, name, encoded)
    return table


NATIVE = {
    "pandas": pd.DataFrame,
    "nullable pandas": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas of Arrow": lambda columns: (
        as_polars(columns).to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
    ),
    "polars": as_polars,
    "polars categories": lambda columns: as_polars(columns).cast({pl.String: pl.Categorical}),
    "pyarrow": lambda columns: as_polars(columns).to_arrow(),
    "pyarrow dictionaries": as_dictionaries,
}


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
@pytest.mark.parametrize("container", NATIVE)
def test_hidden_cells_of_native_types_change_nothing(container, policy, mixed_model, n_seeds):
    X = mixed_table(seed=1)[0].astype({"level": str})
    draws = {"policy": policy, "random_state": np.arange(len(X))}
    mask = mixed_model.select(X, **draws)
    expected = mixed_model.explain(X, **draws)
    assert (~mask).sum() > len(X)
    for seed in range(3 * n_seeds):
        bad = NATIVE[container](native_columns(X, mask, seed))
        np.testing.assert_array_equal(mixed_model.select(bad, **draws), mask)
        assert mixed_model.explain(bad, **draws).to_json() == expected.to_json()
        # Alone, and with the columns in another order.
        names = list(X.columns[::-1])
        part = bad.select(names) if hasattr(bad, "select") else bad[names]
        rows = {"policy": policy, "random_state": np.arange(5, 9)}
        assert (mixed_model.select(part[5:9], **rows) == mask[5:9, ::-1]).all()


class Forgotten(ClassifierMixin, BaseEstimator):
    """A teacher that can be asked only during the fit of its pupil."""

    asked, refuses = 0, False

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        assert not Forgotten.refuses
        Forgotten.asked += 1
        first = np.asarray(X["size"], dtype=float) > 0
        return np.column_stack([first, ~first]).astype(float) * 0.8 + 0.1


@pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")
@pytest.mark.parametrize("teacher", ["estimator", pytest.param("auto", marks=pytest.mark.slow)])
def test_no_decision_depends_on_the_teacher_or_on_hidden_cells(teacher, monkeypatch):
    X, y = mixed_table(60)
    model = SUWRClassifier(
        teacher=Forgotten() if teacher == "estimator" else teacher,
        max_epochs=20 if teacher == "auto" else 1, max_steps=3, random_state=0,
        training={"hidden_size": 8, "n_layers": 1},
    ).fit(X, y)  # fmt: skip
    assert "teacher" in model.choices_
    randomize(model, lambda: len(np.unique(model.select(X).sum(axis=1))) > 1)
    if teacher == "estimator":
        assert Forgotten.asked > 0
        monkeypatch.setattr(Forgotten, "refuses", True)
    else:
        monkeypatch.setattr("suwr.training.teacher.stack_members", _raise)
    mask, expected = model.select(X), model.explain(X)
    loaded = from_bytes(to_bytes(model))
    bad = as_object_frame(poisoned_cells(X, mask, OBJECTS))
    for one in (model, loaded):
        np.testing.assert_array_equal(one.select(bad), mask)
        np.testing.assert_array_equal(one.predict_proba(bad), model.predict_proba(X))
        assert one.explain(bad).to_json() == expected.to_json()


def test_masked_cells_of_numpy_are_missing():
    X, y = mixed_table()
    X = X[["age", "size"]].to_numpy()
    hole = np.arange(len(X)) % 5 == 0
    missing = np.where(np.column_stack([hole, ~hole & False]), np.nan, X)
    masked = np.ma.masked_array(np.where(np.isnan(missing), -9999.0, X), np.isnan(missing))
    one, two = (
        SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, random_state=0).fit(rows, y)
        for rows in (missing, masked)
    )
    np.testing.assert_array_equal(one.predict_proba(missing), two.predict_proba(masked))
    whole = np.ma.masked_array(np.full((2, 2), 7), [[True, False], [False, True]])
    expected = one.predict_proba([[np.nan, 7.0], [7.0, np.nan]])
    np.testing.assert_array_equal(one.predict_proba(whole), expected)
