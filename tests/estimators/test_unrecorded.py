"""``missing='unrecorded'``: cells that were not recorded, but could be acquired."""

import numpy as np
import pandas as pd
import pytest
import torch

import suwr
from suwr import Acquisition, SUWRClassifier, SUWRRegressor, verify
from suwr.data.units import resolve_units
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.verify import poison_check
from suwr.exceptions import ModelFileError, TableError
from suwr.nn.inputs import MaskedInputs, soft_reveal

SMALL = {"max_epochs": 3, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


def make_table(n=200, share=0.3, seed=0):
    rng = np.random.RandomState(seed)
    X = pd.DataFrame({"a": rng.randn(n), "b": rng.randn(n), "c": rng.randn(n)})
    X["colour"] = rng.choice(["red", "blue"], n)
    y = X["a"] + (X["colour"] == "red") + 0.1 * rng.randn(n)
    return X.mask(rng.rand(*X.shape) < share), y


@pytest.fixture(scope="module")
def model():
    X, y = make_table()
    settings = {**SMALL, "max_epochs": 8, "sparsity_weight": 0.001}
    return SUWRRegressor(missing="unrecorded", groups={"g": ["b", "c"]}, **settings).fit(X, y)


def test_complete_tables_give_the_same_model():
    X, y = make_table(100, share=0.0)
    # The actor evaluates the first state of unrecorded cells in another shape, which rounds.
    settings = {
        **SMALL,
        "max_epochs": 1,
        "training": {"hidden_size": 8, "n_predictors": 2},
        "trainer": "lookahead",
    }
    one, two = (SUWRRegressor(missing=m, **settings).fit(X, y) for m in ("value", "unrecorded"))
    np.testing.assert_array_equal(one.select(X), two.select(X))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_cell_that_is_missing_reveals_nothing(model):
    X, _ = make_table(seed=1)
    masks, complete = model.select(X), X.fillna({"a": 0.0, "b": 0.0, "c": 0.0, "colour": "red"})
    asked_in_vain = masks & X.isna().to_numpy()
    assert asked_in_vain.any()
    seen = masks & X.notna().to_numpy()
    np.testing.assert_allclose(model.predict(X), model.predict_masked(complete, seen), atol=1e-6)
    # It was asked for, and paid.
    np.testing.assert_array_equal(model.cost(X), masks[:, [0, 1, 3]].sum(axis=1))
    row = int(np.flatnonzero(asked_in_vain.any(axis=1))[0])
    narrative = model.explain(X.iloc[[row]])[0]
    assert "missing" in narrative.text()
    assert verify(narrative.receipt(), model)


def test_raw_cells_that_were_not_revealed_change_nothing(model):
    """In particular, whether an unrevealed cell was recorded does not matter."""
    assert poison_check(model, make_table(seed=2)[0], random_state=0).passed


def test_sessions_decide_as_explain(model):
    X, _ = make_table(12, seed=3)
    for row, expected in enumerate(model.explain(X)):
        session = model.acquire()
        while not session.done:
            session.observe({c: X.iloc[row][c] for c in session.next_columns})
        assert session.narrative(row) == expected
        assert Acquisition.from_json(session.to_json(), model).known == session.known


@pytest.mark.parametrize(
    "trainer", ["actor", pytest.param("lookahead", marks=pytest.mark.slow), "reinforce"]
)
def test_training_does_not_ask_for_unrecorded_cells(monkeypatch, trainer):
    module = getattr(__import__("suwr.training", fromlist=[trainer]), trainer)
    original, seen = module.decide, []

    def spy(heads, inputs, masked, mask, *arguments, **named):
        decision = original(heads, inputs, masked, mask, *arguments, **named)
        allowed = named.get("allowed", arguments[2] if len(arguments) > 2 else None)
        assert not (decision.available & ~allowed).any()
        seen.append(float((~allowed).double().mean()))
        return decision

    __import__(f"suwr.training.{trainer}")
    monkeypatch.setattr(module, "decide", spy)
    X, y = make_table(80)
    fitted = SUWRClassifier(missing="unrecorded", trainer=trainer, **SMALL | {"max_epochs": 4})
    fitted.fit(X, y > 0)
    # The units of these rows are indeed not always recorded.
    assert seen
    assert 0.1 < np.mean(seen) < 0.6
    assert poison_check(fitted, X, random_state=0).passed


def test_masked_inputs_hide_unrecorded_cells():
    units = resolve_units({"g": [1, 2]}, None, ["x", "y", "z"])
    inputs = MaskedInputs.build(units, np.array([0, 0, 1, 2]), "cpu", unrecorded=True)
    nan = float("nan")
    values = torch.tensor([[nan, nan, 2.0, 3.0], [1.0, 0.0, nan, 3.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    expected = torch.tensor([[0, 0, 2.0, 0, 0, 1, 0], [1, 0, 0, 3.0, 1, 0, 1]])
    torch.testing.assert_close(inputs.reveal(values, mask), expected)
    torch.testing.assert_close(soft_reveal(inputs, values, mask.float()), expected)
    assert inputs.recorded_units(values).tolist() == [[False, True], [True, False]]


def test_screening_of_many_units():
    rng = np.random.RandomState(0)
    X = rng.randn(300, 20)
    y = X[:, 0] > 0
    X[rng.rand(*X.shape) < 0.2] = np.nan
    fitted = SUWRClassifier(missing="unrecorded", **SMALL | {"max_epochs": 1}).fit(X, y)
    assert fitted.selectable_units_[0]
    assert not fitted.selectable_units_.all()
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_columns_without_any_recorded_value_are_refused():
    X, y = make_table(40)
    for column in (np.nan, None):
        bad = X.assign(c=pd.Series([column] * 40, dtype=object if column is None else float))
        with pytest.raises(TableError, match="Column 'c' has no recorded value"):
            SUWRRegressor(missing="unrecorded", **SMALL).fit(bad, y)
    with pytest.raises(ValueError, match="'missing' parameter of SUWRRegressor must be"):
        SUWRRegressor(missing="ignored", **SMALL).fit(X, y)


def test_files(model, tmp_path):
    X, _ = make_table(seed=4)
    model.save(tmp_path / "m.suwr")
    np.testing.assert_array_equal(suwr.load(tmp_path / "m.suwr").predict(X), model.predict(X))
    forged = suwr.load(tmp_path / "m.suwr")
    forged.missing = "value"
    with pytest.raises(ModelFileError, match="inconsistent"):
        from_bytes(to_bytes(forged))
