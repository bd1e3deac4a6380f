"""Display names, units of measurement and category labels given by users."""

import pytest

from suwr import Column
from suwr.data.descriptions import resolve_columns
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.units import resolve_units

ENCODER = TableEncoder(
    ["age", "sex", "smoker"],
    [ColumnCode(), ColumnCode(categories=("f", "m")), ColumnCode(categories=(False, True))],
)


def test_values_of_categories_are_parsed_as_those_of_the_table():
    given = {
        "age": {"label": "Age", "unit": "years", "categories": {"99": "99 or older"}},
        "smoker": Column(categories={"True": "yes", False: "no"}),
    }
    found = resolve_columns(given, ENCODER, "Model")
    assert found["age"] == Column("Age", "years", {99.0: "99 or older"})
    assert found["smoker"].categories == {True: "yes", False: "no"}
    # The form of model files means the same.
    stored = {name: column.to_dict() for name, column in found.items()}
    assert resolve_columns(stored, ENCODER, "Model") == found
    assert resolve_columns(None, ENCODER, "Model") == {}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([1], r"'columns' parameter of Model must be None or a mapping .* Got \[1\]"),
        ({"height": {}}, "names of columns as keys. Got 'height'"),
        ({3: {}}, "names of columns as keys. Got 3"),
        ({"age": "Age"}, "must map 'age' to a Column .* Got 'Age'"),
        ({"age": {"name": "Age"}}, "keys 'label', 'unit', 'categories'. Got {'name': 'Age'}"),
        ({"age": {"label": " "}}, "'label' parameter of Column must be .* Got ' '"),
        ({"age": {"label": "x" * 201}}, "at most 200 characters"),
        ({"age": {"unit": 3}}, "'unit' parameter of Column .* Got 3"),
        ({"age": {"categories": ["a"]}}, "'categories' parameter of Column must be a mapping"),
        ({"age": {"categories": {1: ""}}}, "must map 1 to a non-empty str .* Got ''"),
        ({"age": {"categories": dict.fromkeys(range(1001), "a")}}, "at most 1000 .* Got 1001"),
        ({"age": {"categories": {"old": "a"}}}, "values of column 'age', each a finite number"),
        ({"smoker": {"categories": {2: "a"}}}, "column 'smoker', each true or false. Got 2"),
        ({"sex": {"categories": {None: "a"}}}, "values of column 'sex', each text. Got None"),
        ({"age": {"label": "sex"}}, "its own label. Got 'sex' for 'age' and 'sex'"),
        ({"age": {"label": "a\udc80"}}, "column 'age' in the 'columns' parameter must be valid"),
    ],
)
def test_errors_name_the_column_and_the_value(columns, message):
    with pytest.raises(ValueError, match=message):
        resolve_columns(columns, ENCODER, "Model")


def test_names_that_are_alike_are_suggested():
    with pytest.raises(ValueError, match=r"Got 'agee' instead\. Did you mean 'age'\?"):
        resolve_columns({"agee": {"label": "Age"}}, ENCODER, "Model")
    with pytest.raises(ValueError, match=r"in the group 'g' instead\. Did you mean 'height'\?"):
        resolve_units({"g": ["heigt"]}, None, ["height", "age"])
    with pytest.raises(ValueError, match=r"Did you mean 'height'\?"):
        resolve_units(None, {"heigth": 2}, ["height", "age"])
