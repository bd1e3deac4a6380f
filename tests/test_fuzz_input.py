"""Every input either works or raises a documented exception, without warnings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typer.testing import CliRunner

import suwr
from suwr import SUWRClassifier, SUWRRegressor
from suwr.cli import app
from suwr.exceptions import SuwrError

FIXTURES = Path(__file__).parent / "estimators" / "fixtures"
# All exceptions of suwr derive from one of these.
DOCUMENTED = (ValueError, TypeError, SuwrError)
quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def fuzz(n):
    return settings(max_examples=n, suppress_health_check=quiet, derandomize=True)


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.sampled_from([pd.NA, pd.NaT, pd.Timestamp(0), np.float32(1), 1j, (), [1], {}, object()]),
)
dtypes = st.sampled_from(
    ["f8", "f4", "f2", "i8", "u1", "?", "c16", "U3", "S2", "M8[s]", "m8[s]", "O"]
)


@st.composite
def columns(draw, n):
    kind = draw(st.sampled_from(["numbers", "text", "any", "category", "nullable", "flags"]))
    if kind == "numbers":
        return draw(hnp.arrays("f8", n))
    if kind == "text":
        return np.array(draw(st.lists(st.text(max_size=3), min_size=n, max_size=n)), dtype=object)
    if kind == "category":
        values = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n))
        return pd.Categorical(values)
    if kind == "nullable":
        values = draw(st.lists(st.none() | st.integers(-5, 5), min_size=n, max_size=n))
        return pd.array(values, dtype="Int64")
    if kind == "flags":
        return draw(hnp.arrays("?", n))
    out = np.empty(n, dtype=object)
    out[:] = [draw(cells) for _ in range(n)]
    return out


@st.composite
def frames(draw):
    n, d = draw(st.integers(0, 14)), draw(st.integers(0, 4))
    names = draw(
        st.lists(st.one_of(st.text(max_size=3), st.integers(0, 3)), min_size=d, max_size=d)
    )
    frame = pd.concat(
        [pd.Series(draw(columns(n)), dtype=None) for _ in range(d)]
        or [pd.DataFrame(index=range(n))],
        axis=1,
    )
    frame.columns = names
    return frame


arrays = st.one_of(
    hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12)),
    hnp.arrays("f8", st.tuples(st.integers(2, 14), st.integers(1, 4))),
    st.lists(st.lists(cells, max_size=3), max_size=4),
    cells,
)
tables = st.one_of(frames(), arrays)


@st.composite
def targets(draw, n):
    kind = draw(st.sampled_from(["classes", "numbers", "text", "any", "wrong"]))
    if kind == "classes":
        return np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    if kind == "numbers":
        return draw(hnp.arrays("f8", n))
    if kind == "text":
        return draw(st.lists(st.sampled_from(["no", "yes"]), min_size=n, max_size=n))
    if kind == "any":
        return draw(st.lists(cells, min_size=n, max_size=n))
    return draw(arrays)


def length(X):
    return (
        len(X) if hasattr(X, "__len__") and not (isinstance(X, np.ndarray) and X.ndim == 0) else 3
    )


@fuzz(25)
@given(st.data())
def test_fit(data):
    X = data.draw(tables)
    y = data.draw(targets(length(X)))
    kind = data.draw(st.sampled_from([SUWRClassifier, SUWRRegressor]))
    model = kind(
        max_epochs=1, training={"hidden_size": 2, "n_layers": 1}, random_state=0, device="cpu"
    )
    try:
        model.fit(X, y)
    except DOCUMENTED:
        return
    prediction = model.predict(X)
    assert len(prediction) == len(X)
    assert len(model.explain(X)) == len(X)
    assert np.isfinite(np.asarray(prediction)).all() if kind is SUWRRegressor else True


MODELS = {k: suwr.load(FIXTURES / f"{k}-1.suwr") for k in ("classifier", "regressor")}


# scikit-learn warns about feature names that were not seen in fit.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@fuzz(120)
@given(X=tables, kind=st.sampled_from(list(MODELS)))
def test_predict_and_explain(X, kind):
    model = MODELS[kind]
    try:
        prediction = model.predict(X)
    except DOCUMENTED:
        return
    assert len(prediction) == len(X)
    assert model.select(X).shape == (len(X), model.n_features_in_)
    assert len(model.explain(X)) == len(X)


@fuzz(100)
@given(data=st.data())
def test_predict_with_the_right_columns(data):
    """The columns of fit with arbitrary cells."""
    model = MODELS["classifier"]
    n = data.draw(st.integers(1, 5))
    X = pd.DataFrame({name: pd.Series(data.draw(columns(n))) for name in model.encoder_.names})
    try:
        probability = model.predict_proba(X)
    except DOCUMENTED:
        return
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    explanation = model.explain(X)
    assert suwr.Explanation.from_json(explanation.to_json()) == explanation


@pytest.mark.slow
@fuzz(25)
@given(X=tables, data=st.data())
def test_audit(X, data):
    y = data.draw(st.none() | targets(length(X)))

    def first_column(table):
        masks = np.zeros((len(table), table.shape[1]), dtype=bool)
        masks[:, 0] = True
        return masks

    try:
        report = suwr.audit(first_column, X, y, random_state=0, n_probes=20, n_draws=200)
    except DOCUMENTED:
        return
    assert report.summary()


bytes_of_a_table = st.one_of(
    st.binary(max_size=60),
    st.text("ab,;\t\n\"'1.-+eNa ü", max_size=80).map(str.encode),
    st.lists(
        st.lists(st.sampled_from(["1", "2.5", "", "a", "NaN", "inf", "1e999", "é"]), min_size=2,
                 max_size=2),
        max_size=12,
    ).map(lambda rows: "\n".join(["x,y", *(",".join(r) for r in rows)]).encode()),
)  # fmt: skip


@fuzz(15)
@given(content=bytes_of_a_table, suffix=st.sampled_from([".csv", ".tsv", ".parquet"]))
@pytest.mark.parametrize(
    "command",
    [
        "predict",
        "explain",
        *(pytest.param(c, marks=pytest.mark.slow) for c in ("fit", "folder", "audit")),
    ],
)
def test_commands(tmp_path_factory, command, content, suffix):
    folder = tmp_path_factory.mktemp("cli")
    data, model = folder / f"x{suffix}", FIXTURES / "regressor-1.suwr"
    data.write_bytes(content)
    words = {
        "fit": ["fit", data, "--target", "y", "--out", folder / "m", "--max-epochs", 1],
        "predict": ["predict", model, data, "--out", folder / "p.csv"],
        "folder": ["predict", model, data, "--out", folder / "scored"],
        "explain": ["explain", model, data, "--row", 0],
        "audit": ["audit", data, "--model", FIXTURES / "classifier-1.suwr"],
    }[command]
    done = CliRunner().invoke(app, [str(w) for w in words])
    if done.exit_code:
        assert isinstance(done.exception, SystemExit), repr(done.exception)
        assert "Error: " in done.output
