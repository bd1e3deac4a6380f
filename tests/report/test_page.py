"""The contents of a page, without a browser."""

import base64
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import suwr.report
from helpers import page_models
from suwr import Explanation, Narrative
from suwr.baselines import GDFSClassifier
from suwr.exceptions import UnsupportedModelError
from suwr.narrative.explanation import ModelNarrative, Step
from suwr.report import page_html
from suwr.report.page import MAX_WEIGHT_BYTES, _json_in_html, derive_layout

ROOT = Path(__file__).parents[2]


def make_narrative(row=0, label="a"):
    step = Step({"age": {"age": 71}}, 0.8, (0.4, 0.6), (0.9, 0.1))
    return Narrative(row, (0.4, 0.6), 0.0, (step,), "decision", (label, "b"), 5)


def read(page):
    """Return the data embedded in a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_json_is_escaped_and_reads_back(value):
    text = _json_in_html([value])
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == [value]


def test_names_and_titles_are_escaped():
    hostile = "</script><script>alert(1)</script>{{data}}"
    page = page_html(Explanation([make_narrative(label=hostile)]), title=hostile)
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert read(page)["classes"] == [hostile, "b"]
    assert "&lt;/script&gt;" in page


def test_output_of_an_explained_model_is_on_the_page():
    narrative = ModelNarrative.of(make_narrative(), (0.2, 0.8))
    row = read(page_html(Explanation([narrative])))["rows"][0]
    assert row["comparison"] == narrative.comparison
    assert "comparison" not in read(page_html(Explanation([make_narrative()])))["rows"][0]


def test_page_has_no_external_references():
    page = page_html(Explanation([make_narrative()]))
    # The namespace of SVG is the only URL; it is not fetched.
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(", page)


def test_equal_explanations_give_equal_files(tmp_path):
    for name in ("a", "b"):
        Explanation([make_narrative()]).to_html(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_invalid_parameters():
    with pytest.raises(ValueError, match="Got an empty explanation"):
        page_html(Explanation([]))
    with pytest.raises(ValueError, match="must have the same classes"):
        page_html(Explanation([make_narrative(), make_narrative(label="c")]))
    with pytest.raises(ValueError, match=r"must have 1 values, one per row\. Got 2"):
        page_html(Explanation([make_narrative()]), y=[1, 2])
    with pytest.raises(ValueError, match=r"True, False or 'auto'\. Got 'yes'"):
        page_html(Explanation([make_narrative()]), model="yes")
    with pytest.raises(UnsupportedModelError, match="read from a file"):
        page_html(Explanation([make_narrative()]), model=True)


def test_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Explanation([make_narrative()]).to_html(tmp_path / "no" / "page.html")


def test_units_with_equal_names_and_different_columns():
    steps = [Step({"g": {"a": 1}}, 0.1, (1.0,), (2.0,)), Step({"g": {"b": 2}}, 1, (2.0,), (3.0,))]
    narrative = Narrative("r", (1.0,), 0.0, tuple(steps), "budget", None, 4)
    assert derive_layout(Explanation([narrative])).units == [("g", [0]), ("g", [1])]
    row = read(page_html(Explanation([narrative])))["rows"][0]
    assert [units for units, _, _ in row["steps"]] == [[0], [1]]
    assert row["cells"] == {"0": 1, "1": 2}


def test_values_that_javascript_cannot_represent():
    step = Step({"a": {"a": 2**60}, "b": {"b": float("inf")}}, 1.0, (0.0,), (float("nan"),))
    narrative = Narrative(0, (0.0,), 0.0, (step,), "budget", None, 4)
    row = read(page_html(Explanation([narrative])))["rows"][0]
    assert row["cells"] == {"0": str(2**60), "1": None}
    assert row["steps"][0][2] == [None]
    narrative = Narrative(0.5, (0.1, 0.9), 0.0, (), "budget", (1.0, 2**53), 4)
    data = read(page_html(Explanation([narrative]), y=[1.0]))
    # As in `Narrative.text`: JavaScript would show 1.0 as 1.
    assert data["classes"] == ["1.0", str(2**53)]
    assert data["rows"][0]["label"] == "0.5"
    assert data["rows"][0]["truth"] == "1.0"


def test_unprintable_characters_of_the_title_are_escaped():
    page = page_html(Explanation([make_narrative()]), title="a\u202eb\ud800\n")
    assert r"<title>a\u202eb\ud800\x0a</title>" in page


def test_contents_of_the_page_of_a_model():
    model, X, y = page_models.mixed()
    explanation = model.explain(X)
    data = read(page_html(explanation, y=y, hidden_values=True))
    assert data["columns"] == list(X.columns)
    assert data["model"]["codes"][1]["categories"] == list(model.encoder_.codes[1].categories)
    count = sum(p.numel() for p in model.policy_.network.parameters())
    assert len(base64.b64decode(data["model"]["weights"])) == 4 * count
    assert [len(row["cells"]) for row in data["rows"]] == [5] * len(X)
    assert data["rows"][0]["correct"] == (explanation[0].label == y[0])

    some = read(page_html(explanation[10:20:3]))
    assert not some["hidden_values"]
    assert [row["label"] for row in some["rows"]] == [10, 13, 16, 19]
    revealed = {c for step in explanation[10].steps for c in step.columns}
    assert {data["columns"][int(c)] for c in some["rows"][0]["cells"]} == revealed
    assert (
        some["rows"][0]["cells"].items()
        <= dict(zip(map(str, range(5)), data["rows"][10]["cells"], strict=True)).items()
    )

    without = read(page_html(explanation, model=False))
    assert without["model"] is None
    assert "without the model" in without["without_model"]


def test_large_model_is_embedded_only_on_request(monkeypatch):
    model, X, _ = page_models.shared()
    explanation = model.explain(X[:3])
    weights = explanation.source.model().weights
    assert weights.nbytes < MAX_WEIGHT_BYTES
    monkeypatch.setattr("suwr.report.page.MAX_WEIGHT_BYTES", weights.nbytes - 1)
    assert "too large to embed" in read(page_html(explanation))["without_model"]
    assert read(page_html(explanation, model=True))["model"] is not None


def test_unsupported_networks_are_not_embedded(rng):
    X, y = rng.randn(60, 3), rng.randint(2, size=60)
    model = GDFSClassifier(max_epochs=1, random_state=0).fit(X, y)
    explanation = model.explain(X)
    assert "GDFSNetwork" in read(page_html(explanation))["without_model"]
    with pytest.raises(UnsupportedModelError, match="GDFSNetwork"):
        page_html(explanation, model=True)


def test_unexpected_input_size_raises():
    import torch

    model, X, _ = page_models.shared()
    source = model.explain(X[:3]).source
    weights = model.policy_.network.encoder.weights
    kept = weights[0]
    try:
        weights[0] = torch.nn.Parameter(torch.cat([kept, kept[:, :1]], dim=1))
        with pytest.raises(UnsupportedModelError, match="13 inputs"):
            source.model()
    finally:
        weights[0] = kept


def test_copy_of_an_explanation_keeps_its_source():
    model, X, _ = page_models.shared()
    explanation = model.explain(X[:3])
    assert explanation.source is not None
    assert Explanation(explanation).source is explanation.source
    assert Explanation(list(explanation)).source is None
    assert explanation == Explanation(list(explanation))
    assert explanation[1:].source.values(0) == dict(enumerate(X[1]))


def test_assets_are_part_of_the_wheel():
    folder = Path(suwr.report.__file__).parent
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["suwr"]
    for asset in (folder / "assets").iterdir():
        assert any(fnmatch(f"report/assets/{asset.name}", p) for p in patterns)
