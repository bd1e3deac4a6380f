"""Revealed values unlike the training data, and the warnings about them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import suwr
from suwr.data.descriptions import find_unusual
from suwr.data.encode import TableEncoder
from suwr.data.frame import raw_columns, read_table
from suwr.exceptions import UnusualValueWarning


@pytest.fixture(scope="module")
def frame():
    rng = np.random.RandomState(0)
    return pd.DataFrame({"age": rng.randint(18, 80, 60), "city": rng.choice(["Oslo", "Rome"], 60)})


def test_far_values_and_unknown_categories(frame):
    encoder = TableEncoder.fit(read_table(frame), ["age", "city"])
    rows = pd.DataFrame({"age": [200, 100, np.nan, 30], "city": ["Rome", "Paris", None, "Bern"]})
    table = encoder.parse(raw_columns(rows))
    found = find_unusual(encoder, table, np.ones((4, 2), bool))
    assert [(u.row, u.column, u.value) for u in found] == [
        (0, "age", 200), (1, "city", "Paris"), (3, "city", "Bern"),
    ]  # fmt: skip
    low, high = frame["age"].min(), frame["age"].max()
    assert str(found[0]) == f"row 0: age is 200 (far above the training values, {low} to {high})"
    hidden = np.zeros((4, 2), bool)
    assert find_unusual(encoder, table, hidden) == []


def test_predict_and_explain_warn_about_revealed_values_only(frame):
    y = frame["age"].to_numpy(dtype=float)
    model = suwr.SUWRRegressor(
        max_epochs=12,
        training={"hidden_size": 16},
        max_steps=1,
        sparsity_weight=0.0,
        random_state=0,
    ).fit(frame, y)
    masks = model.select(frame[:6])
    assert masks[:, 0].any()
    assert not masks.all()
    strange = frame[:6].astype(object)
    hidden_only = strange.mask(~masks, pd.Series({"age": 10**6, "city": "Paris"}), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (model.predict(hidden_only) == model.predict(frame[:6])).all()
    strange["age"] = 10**6
    for method in (model.predict, model.explain):
        with pytest.warns(UnusualValueWarning, match="unlike the training data: row 0: age is 1,0"):
            method(strange)


def test_warnings_name_rows_by_their_labels_and_point_at_the_call(frame):
    y = (frame["age"] > 50).to_numpy()
    model = suwr.SUWRClassifier(
        max_epochs=20,
        training={"hidden_size": 16},
        max_steps=2,
        sparsity_weight=0.0,
        random_state=0,
    ).fit(frame, y)
    strange = frame[40:46].assign(age=10**6, city="Paris")
    revealed = model.select(strange)
    first = int(np.flatnonzero(revealed.any(axis=1))[0])
    for method in (model.predict, model.predict_proba, model.explain):
        with pytest.warns(UnusualValueWarning, match=f"data: row {40 + first}: ") as found:
            method(strange)
        assert found[0].filename == __file__
    one = strange.iloc[[first]].assign(city="Rome")
    assert model.select(one)[0, 0]
    with pytest.warns(UnusualValueWarning, match="used 1 value unlike"):
        model.predict(one)
