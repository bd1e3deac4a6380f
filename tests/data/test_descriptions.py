"""Wording of columns, units and revealed values."""

import json

import numpy as np
import pandas as pd
import pytest

from suwr import Column, Patches
from suwr.data.descriptions import (
    MAX_VALUES,
    NO_DESCRIPTION,
    ColumnDescription,
    TableDescription,
    describe_table,
)
from suwr.data.encode import MAX_SUMMARIES, ColumnCode, TableEncoder, category_code, number_code
from suwr.data.units import resolve_units
from suwr.narrative.explanation import Explanation, Narrative, Step


def described(values, column=None):
    return ColumnDescription.of(number_code(np.asarray(values, dtype=float)), column)


@pytest.mark.parametrize("kind", ["continuous", "integers", "mostly zero"])
def test_positions_are_lower_bounds_of_the_shares(rng, kind):
    training = rng.randn(333) * 20
    if kind != "continuous":
        training = training.round()
    if kind == "mostly zero":
        training[rng.rand(333) < 0.6] = 0.0
    column, words = described(training), set()
    for value in [*training[:60], *(rng.randn(60) * 25), 0.0, training.max() + 1]:
        text = column.position(value)
        words.add(text[:5])
        if not text:
            assert max((training < value).mean(), (training > value).mean()) < 0.06
            continue
        beyond = training < value if text.startswith("above") else training > value
        claimed = 1.0 if "all training values" in text else int(text.split()[1]) / 100
        # The next quantile, 5 % further, is already on the other side.
        assert claimed <= beyond.mean() < claimed + 0.05 + 1 / 333 or (value == training).any()
        assert claimed <= beyond.mean()
    assert {"above", "below"} <= words


def test_few_distinct_values_have_no_position():
    assert described([0, 1, 2, 3] * 10).position(2) == ""
    assert described(range(40)).position(None) == ""
    assert ColumnDescription.of(ColumnCode()).position(2.0) == ""


def test_unusual_values():
    age = described(range(17, 80))
    assert age.unusual(200) == "far above the training values, 17 to 79"
    assert age.unusual(-20) == "far below the training values, 17 to 79"
    assert age.unusual(100) == age.unusual(None) == ""
    assert age.position(100) == "above all training values"
    city = ColumnDescription.of(ColumnCode(categories=("Oslo", "Rome")))
    assert city.unusual("Rome") == city.unusual(None) == ""
    assert city.unusual("Paris") == "never seen in training: treated as any other"
    many = category_code({str(i): 1 for i in range(99)}, False)
    assert ColumnDescription.of(many).unusual("x") == "rare or never seen: treated as any other"


def test_labels_and_units_of_measurement():
    column = described(range(40), Column("Age", "years", {7: "seven"}))
    assert [column.value_text(v) for v in (7, 8, 12345.5, None)] == [
        "seven", "8 years", "12,345.5 years", "missing",
    ]  # fmt: skip
    words = TableDescription({"age": column})
    assert words.revealed_text({"age": {"age": 30}}) == (
        "Age is 30 years (above 75 % of the training values)"
    )
    assert words.revealed_text({"age": {"age": 30}}, context=False) == "Age is 30 years"
    # The name of a group is not that of its column.
    assert words.unit_text("panel", ["age"]) == "panel"


def test_unprintable_characters_are_escaped():
    column = ColumnDescription("A\x1b", "y\u202e", (("a", "b\n"),))
    words = TableDescription({"a": column})
    assert words.revealed_text({"a": {"a": 1}}) == r"A\x1b is 1 y\u202e"
    assert NO_DESCRIPTION.revealed_text({"g\n": {"a\x1b": "\x07"}}) == r"g\x0a: a\x1b is \x07"
    assert words.revealed_text({"a": {"a": "a"}}) == r"A\x1b is b\x0a"


def test_long_units_are_shortened_and_have_no_positions():
    column = described(range(40))
    names = [f"x{i}" for i in range(MAX_VALUES + 1)]
    words = TableDescription(dict.fromkeys(names, column))
    text = words.revealed_text({"panel": dict.fromkeys(names, 30)})
    assert text == (
        "panel: " + ", ".join(f"{n} is 30" for n in names[:-1]) + f", … ({len(names)} columns)"
    )
    # Unusual values are always said.
    text = words.revealed_text({"panel": dict.fromkeys(names[:6], 3000)})
    assert text.count("far above the training values") == 6


def test_patches_are_described_by_position_and_mean():
    patches = Patches((4, 6), size=(2, 3), stride=(2, 3))
    names = [f"x{i}" for i in range(24)]
    encoder = TableEncoder(names, [ColumnCode()] * 24)
    units = resolve_units(patches, None, names, "Model")
    words = describe_table(encoder, units, patches, {})
    unit, columns = units.names[3], [names[c] for c in units.columns_of(3)]
    assert columns == ["x15", "x16", "x17", "x21", "x22", "x23"]
    values = dict(zip(columns, [1, 2, 3, None, 5, 6.5], strict=True))
    label = "patch at rows 2–3, columns 3–5"
    assert words.revealed_text({unit: values}) == f"{label}: mean value 3.5"
    assert words.revealed_text({unit: dict.fromkeys(columns)}) == f"{label}: missing"
    assert words.unit_text(unit, columns, short=True) == unit


def test_restriction_keeps_what_the_text_needs_and_no_more(rng):
    frame = pd.DataFrame({"city": rng.choice(["Oslo", "Rome", "Bern"], 60), "age": rng.randn(60)})
    frame["hidden"] = frame["age"]
    names = list(frame)
    codes = [category_code(dict(frame["city"].value_counts()), False)]
    codes += [number_code(frame[n].to_numpy()) for n in names[1:]]
    units = resolve_units(None, None, names, "Model")
    words = describe_table(TableEncoder(names, codes), units, None, {"age": Column("Age")})
    steps = tuple(
        Step({n: {n: v}}, 0.5, (float(t),), (t + 1.0,))
        for t, (n, v) in enumerate([("city", "Rome"), ("age", 0.3)])
    )
    narrative = Narrative(0, (0.0,), 0.1, steps, "decision", None, 3, description=words)
    kept = words.restrict([narrative])
    assert set(kept.columns) == {"city", "age"}
    assert kept.columns["city"].categories == ("Rome",)
    explanation = Explanation([narrative])
    text = explanation.text()
    assert "Age is 0.3 (above" in text
    # The wording survives files.
    assert TableDescription.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept
    assert Explanation.from_json(explanation.to_json()).text() == text
    assert Explanation.from_frame(explanation.to_frame()).text() == text
    assert explanation.text(context=False).count("training") == 0
    with pytest.raises(ValueError, match="wrong number of values"):
        TableDescription.from_dict({"columns": {"age": {"quantiles": [1.0]}}, "units": {}})


def test_many_columns_are_described_without_summaries_as_after_loading():
    names = [f"x{i}" for i in range(MAX_SUMMARIES + 1)]
    encoder = TableEncoder(names, [number_code(np.arange(30.0))] * len(names))
    units = resolve_units(None, None, names, "Model")
    assert describe_table(encoder, units, None, {}) == NO_DESCRIPTION
