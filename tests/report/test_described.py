"""Labels, units of measurement and unusual values on the page, in the words of Python."""

import re

import numpy as np
import pandas as pd
import pytest

from helpers import page_models
from helpers.page_models import BREAKING, HOSTILE
from suwr import Explanation

RECORDED = """() => suwr.data.rows.map(
  (row) => suwr.narrativeText(suwr.data, suwr.recordedNarrative(row)))"""
COMPUTED = """() => suwr.data.rows.map(
  (_, i) => suwr.narrativeText(suwr.data, suwr.computedNarrative(i)))"""


@pytest.fixture(scope="module")
def described(pages):
    return pages("described")


def test_text_of_every_row_agrees(described, open_page):
    path, explanation = described
    texts = [narrative.text() for narrative in explanation]
    together = "\n".join(texts)
    for phrase in (
        "far above the training values", "far below the training values", r"Town\u202e is",
        "never seen in training: treated as any other", "is the north & <i>", "% of the training",
        f"Age {BREAKING} is {HOSTILE}", "years <b> (", "smoker is yes",
    ):  # fmt: skip
        assert phrase in together, phrase
    page = open_page(path)
    assert page.evaluate(RECORDED) == texts
    # The model of the page may round a probability to another percentage.
    words = [re.sub(r"\d+ %,?|under 1|over 99", "", text) for text in texts]
    found = [re.sub(r"\d+ %,?|under 1|over 99", "", text) for text in page.evaluate(COMPUTED)]
    assert np.mean([a == b for a, b in zip(words, found, strict=True)]) > 0.9


def test_page_without_model_or_context(described, open_page, tmp_path):
    _, explanation = described
    path = tmp_path / "page.html"
    read = Explanation.from_json(explanation.to_json())
    assert read.text() == explanation.text()
    read.to_html(path)
    assert open_page(path).evaluate(RECORDED) == [n.text() for n in explanation]
    explanation.to_html(path, model=False, context=False)
    assert open_page(path).evaluate(RECORDED) == [n.text(context=False) for n in explanation]
    assert "quantiles" not in path.read_text().split('id="data">')[1].split("</script>")[0]


def test_fields_have_labels_units_and_notes(described, open_page):
    path, explanation = described
    page = open_page(path)
    row = next(i for i, n in enumerate(explanation) if "500 years" in n.text())
    page.locator(f'[data-row="{row}"]').click()
    name = f"Age {BREAKING}"
    field = page.get_by_label(name, exact=True)
    cell = page.locator(".cell", has=field)
    assert "years <b>" in cell.text_content()
    assert "far above the training values" in cell.text_content()
    field.fill("30")
    field.press("Enter")
    assert "of the training values" in cell.text_content().replace("\u00a0", " ")
    options = page.get_by_label("smoker", exact=True).locator("option").all_text_contents()
    assert options == ["no", "yes", "missing"]


def test_description_does_not_depend_on_hidden_cells(described):
    model, X, _ = page_models.described()
    _, explanation = described
    masks = model.select(X)
    poisoned = X.astype(object).mask(
        ~masks, pd.Series(dict.fromkeys(X.columns, "nonsense")), axis=1
    )
    assert not masks.all()
    assert model.explain(poisoned).text() == explanation.text()
    assert model.explain(poisoned).to_json() == explanation.to_json()
