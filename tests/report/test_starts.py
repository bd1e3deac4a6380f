"""Pages of models with known columns or unrecorded cells, in a real browser."""

import json
import re

import numpy as np
import pytest

from helpers.models import randomize
from helpers.pages import COMPUTE, TOLERANCE, answer, numbers, python_text, text_of
from helpers.receipts import sign
from helpers.tables import mixed_table, unrecorded_table
from suwr import SUWRClassifier
from suwr.report import page_html

SMALL = {"max_epochs": 1, "training": {"hidden_size": 8}, "max_steps": 3, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


def fit_random(X, y, **params):
    model = SUWRClassifier(**SMALL, **params).fit(X, y)

    def accept():
        narratives = model.explain(X)
        lengths = {len(n.steps) for n in narratives[:4]}
        return len(lengths) > 1 and len({n.text() for n in narratives}) > 20

    return randomize(model, accept)


@pytest.fixture(scope="module")
def started():
    """A model that always knows 'age' and 'city', which is in a group, and 'size' in some rows."""
    X, y = mixed_table(80)
    known = {"age": 1.0, "city": 1.0, "size": 0.5}
    return fit_random(X, y, known_at_start=known, groups={"where": ["city", "code"]}), X[:30]


@pytest.fixture(scope="module")
def unrecorded():
    """A model that knows 'age', with cells that may be unrecorded, and rows with such cells."""
    X, y = unrecorded_table(80)
    return fit_random(X, y, missing="unrecorded", known_at_start=["age"]), X[:30]


MODELS = pytest.mark.parametrize("name", ["started", "unrecorded"])


@MODELS
def test_every_narrative_agrees_with_python(name, request, open_page, tmp_path):
    model, X = request.getfixturevalue(name)
    explanation = model.explain(X)
    explanation.to_html(tmp_path / "page.html", model=True)
    page = open_page(tmp_path / "page.html")
    for narrative, found in zip(explanation, page.evaluate(COMPUTE), strict=True):
        assert found["text"] == python_text(narrative, found)
        for ours, theirs in zip(
            numbers(narrative), (found["stops"], found["predictions"]), strict=True
        ):
            np.testing.assert_allclose(theirs, ours, atol=TOLERANCE)
    page.locator("#check").filter(has_text="reproduces all 30 recorded rows").wait_for()


@MODELS
def test_hidden_cells_do_not_matter(name, request, open_page, tmp_path):
    model, X = request.getfixturevalue(name)
    mask, expected = model.select(X), page_html(model.explain(X))
    assert (~mask).sum() > 20
    for poison in (np.nan, 1e30, X[::-1].to_numpy()):
        changed = X.astype(object).where(mask, poison)
        assert page_html(model.explain(changed)) == expected
    # Bit-identical, although the hidden values are embedded in the page.
    computed = []
    for rows in (X, changed):
        model.explain(rows).to_html(tmp_path / "page.html", hidden_values=True, model=True)
        computed.append(open_page(tmp_path / "page.html").evaluate(COMPUTE))
    assert computed[0] == computed[1]


def test_a_new_case_starts_from_what_is_known(started, open_page, tmp_path):
    model, X = started
    model.explain(X).to_html(tmp_path / "page.html", model=True)
    page = open_page(tmp_path / "page.html")
    page.get_by_role("button", name=re.compile("New case")).click()
    form = page.get_by_role("form", name="Question")
    lengths = set()
    for row in range(4):
        values = X.iloc[row].to_dict()
        assert "What is known at the start?" in form.text_content()
        answer(page, {"age": "nonsense", "city": values["city"]})
        assert "Please enter a number" in form.get_by_role("alert").text_content()
        known = {name: values[name] for name in ("age", "city")}
        answer(page, known)
        session = model.acquire(known=known)
        while not session.done:
            assert session.next_unit in form.text_content()
            assert form.locator("input, select").count() == len(session.next_columns)
            new = {name: values[name] for name in session.next_columns}
            answer(page, new)
            session.observe(new)
        assert form.count() == 0
        assert text_of(page) == session.narrative("new case").text()
        lengths.add(len(session.steps))
        page.get_by_role("button", name="Start again").click()
    assert len(lengths) > 1


def test_known_values_can_be_changed(started, open_page, tmp_path):
    model, X = started
    explanation = model.explain(X)
    explanation.to_html(tmp_path / "page.html", model=True, hidden_values=True)
    page = open_page(tmp_path / "page.html")
    card = page.get_by_role("region", name="Known at the start")
    assert card.locator("input, select").count() == 2
    card.get_by_label("age", exact=True).fill("33")
    card.get_by_label("age", exact=True).press("Enter")
    changed = X[:1].assign(age=33.0)
    assert text_of(page) == model.explain(changed)[0].text()
    assert "was " in card.text_content()


@MODELS
def test_receipts(name, request, open_page, tmp_path):
    model, X = request.getfixturevalue(name)
    explanation = model.explain(X)
    explanation.to_html(tmp_path / "page.html", model=True)
    page = open_page(tmp_path / "page.html")
    verify = "(texts) => Promise.all(texts.map((text) => suwr.verifyReceipt(text)))"
    texts = [narrative.receipt().to_json() for narrative in explanation]
    for found in page.evaluate(verify, texts):
        assert found["verified"], found["reason"]
    original = next(json.loads(t) for t in texts if json.loads(t)["given"]["known"]["age"])

    def forged(**changes):
        return sign(original | {"given": original["given"] | changes})

    known = original["given"]["known"]
    without = {k: v for k, v in original.items() if k != "given"}
    forgeries = {
        forged(known=known | {"age": known["age"] + 20}): "is another one",
        forged(known=known | {"age": "old"}): "does not have the form",
        forged(known=known | {"size": 1}): "starts from other known values",
        forged(known={}): "starts from other known values",
        forged(unavailable=["size"]): "limits",
        forged(max_cost=1.5): "limits",
        forged(more=1): "unknown fields",
        sign(original | {"format": 2}): "another version",
        sign(without): "missing or unknown fields",
        sign(original | {"given": [1]}): "starts from other known values",
        sign(original | {"given": None}): "starts from other known values",
    }
    for found, reason in zip(
        page.evaluate(verify, list(forgeries)), forgeries.values(), strict=True
    ):
        assert not found["verified"]
        assert reason in found["reason"]


def test_receipts_of_other_starts_are_refused_by_models_without(open_page, tmp_path):
    X, y = mixed_table(40)
    model = SUWRClassifier(**SMALL).fit(X, y)
    model.explain(X[:2]).to_html(tmp_path / "page.html", model=True)
    page = open_page(tmp_path / "page.html")
    text = model.explain(X[:1], max_cost=1)[0].receipt().to_json()
    found = page.evaluate("(text) => suwr.verifyReceipt(text)", text)
    assert not found["verified"]
    assert "limits" in found["reason"]
