"""Cells are parsed, encoded and shown as in Python, in a real browser."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers import page_models
from suwr._utils.text import format_value, printable

CASES = json.loads((Path(__file__).parents[1] / "data" / "parsing_cases.json").read_text())

PARSE = """(cases) => cases.map(({ type, categories, text }) => {
  const value = suwr.parseCell({ type, categories }, text);
  return suwr.isInvalid(value) ? { invalid: true } : { result: value };
})"""


def test_every_case_of_the_table(pages, open_page):
    found = open_page(pages("shared")[0]).evaluate(PARSE, CASES)
    expected = [{key: c[key] for key in ("invalid", "result") if key in c} for c in CASES]
    assert len(CASES) > 100
    # Large integers are transferred with fewer digits, which denote the same number.
    assert [plain(f) for f in found] == [plain(e) for e in expected]


def plain(outcome):
    result = outcome.get("result")
    return {"result": float(result)} if type(result) is int else outcome


def test_values_and_names_are_shown_as_in_python(pages, open_page):
    page = open_page(pages("shared")[0])
    numbers = [
        0.0,
        -0.0,
        3.0,
        1234567.0,
        2.0**53 - 1,
        2.0**53,
        1e18,
        2.0**60,
        -1e300,
        0.1,
        12345.25,
    ]
    shown = page.evaluate("(values) => values.map(suwr.valueText)", numbers)
    assert shown == [format_value(number) for number in numbers]
    names = [chr(n) for n in (*range(0x300), *range(0x2000, 0x2100), 0xFEFF, 0xE0041, 0x1F600)]
    names += ["a\u202eb\x1b[31m", "\U0001f468\u200d\U0001f469", "\\x1b"]
    shown = page.evaluate("(texts) => texts.map(suwr.printable)", names)
    assert shown == [printable(name) for name in names]


@pytest.mark.parametrize("flags", [[0, 1], [0.0, 1.0], ["false", "TRUE"], [False, True]])
def test_boolean_columns_in_other_representations(flags, open_page, tmp_path):
    model, X, _ = page_models.mixed()
    changed = X[:40].copy()
    changed["smoker"] = [flags[int(v)] for v in X["smoker"][:40]]
    expected = model.explain(X[:40])
    explanation = model.explain(changed)
    assert [n.text() for n in explanation] == [n.text() for n in expected]
    check_page(explanation, open_page, tmp_path)


# Beyond 2**53, as text, and so large that their scaled value overflows.
NUMBERS = [0, 2**53, 2**53 + 1, 2**60, 1e18, 1e200, -1e308, "1e3", " 7 ", "+.5", True, None, "NA"]


def test_extreme_numbers_and_numbers_as_text(open_page, tmp_path):
    model, X, _ = page_models.mixed()
    changed = X[: len(NUMBERS)].astype({"age": object, "pressure": object})
    changed["age"] = pd.Series(NUMBERS, dtype=object)
    changed["pressure"] = pd.Series(NUMBERS[::-1], dtype=object)
    check_page(model.explain(changed), open_page, tmp_path)


def test_invalid_hidden_cells_are_not_in_the_page(open_page, tmp_path):
    model, X, _ = page_models.mixed()
    masks, raw = model.select(X[:40]), X[:40].astype(object)
    hidden = np.argwhere(~masks)
    for row, column in hidden:
        raw.iat[row, column] = "not a number"
    explanation = model.explain(raw)
    assert [n.text() for n in explanation] == [n.text() for n in model.explain(X[:40])]
    check_page(explanation, open_page, tmp_path)
    data = read_data(tmp_path / "page.html")
    numeric = {i for i, code in enumerate(model.encoder_.codes) if code.type != "text"}
    for i, row in enumerate(data["rows"]):
        cells = row["cells"]
        known = set(range(len(cells))) if isinstance(cells, list) else {int(c) for c in cells}
        assert known & numeric == set(np.flatnonzero(masks[i])) & numeric


def check_page(explanation, open_page, folder):
    """Assert that the page computes the narratives of Python and says that it agrees."""
    path = folder / "page.html"
    explanation.to_html(path, model=True, hidden_values=True)
    page = open_page(path)
    rows = "suwr.data.rows.map((_, i) => suwr.computedNarrative(i))"
    texts = page.evaluate(f"() => {rows}.map((n) => suwr.narrativeText(suwr.data, n))")
    assert texts == [narrative.text() for narrative in explanation]
    check = page.locator("#check").filter(has_text=f"all {len(explanation)} recorded rows")
    check.wait_for()
    assert float(re.search(r"difference is ([\d.e+-]+)\.", check.text_content())[1]) <= 1e-5


def read_data(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def write_data(path, data):
    start, rest = path.read_text().split('id="data">', 1)
    path.write_text(
        start + 'id="data">' + json.dumps(data) + "</script>" + rest.split("</script>", 1)[1]
    )


def change_reference(data):
    data["model"]["references"][0]["prediction"][0] += 2e-5


def lose_reference(data):
    data["model"]["references"][0]["prediction"][0] = None


def change_encoding(data):
    data["model"]["codes"][0]["center"] += data["model"]["codes"][0]["scale"]


def change_stop_probability(data):
    data["rows"][2]["stop"] += 2e-5


def change_decision(data):
    data["rows"][2]["steps"] = data["rows"][2]["steps"][:1]


@pytest.mark.parametrize(
    "change",
    [change_reference, lose_reference, change_encoding, change_stop_probability, change_decision],
)
def test_page_that_disagrees_says_so_and_refuses_to_answer(change, pages, open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(pages("shared")[0].read_text())
    data = read_data(path)
    change(data)
    write_data(path, data)
    page = open_page(path)
    alert = page.locator("header").get_by_role("alert")
    alert.wait_for()
    assert "does not agree with Python" in alert.text_content()
    red, green, blue = (
        int(part)
        for part in re.findall(r"\d+", alert.evaluate("n => getComputedStyle(n).color"))[:3]
    )
    assert red > 150 > 60 > max(green, blue)
    assert "Self-check failed" in page.locator("#check").text_content()
    assert page.locator("#blank").is_hidden()
    assert page.locator("main input, main select, main form").count() == 0
    # The recorded rows remain.
    page.locator('[data-row="1"]').click()
    assert page.locator(".words pre").text_content() == pages("shared")[1][1].text()


def test_changes_are_discarded_when_the_check_fails(pages, open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(pages("shared")[0].read_text())
    data = read_data(path)
    change_stop_probability(data)
    write_data(path, data)
    page = open_page(path)
    # Start a new case as soon as the page is ready, before the recorded rows are checked.
    page.add_init_script("""new MutationObserver((_, observer) => {
      if (document.documentElement?.dataset.ready !== "true") return;
      observer.disconnect();
      document.getElementById("blank").click();
      window.asked = document.querySelector("main form") !== null;
    }).observe(document, { attributes: true, subtree: true });""")
    page.reload()
    page.locator("header").get_by_role("alert").wait_for()
    assert page.evaluate("window.asked")
    assert page.locator("main form").count() == 0
    assert "New case" not in page.locator("h2").text_content()


def test_sampled_narratives_are_not_a_disagreement(open_page, tmp_path):
    model, X, _ = page_models.shared()
    explanation = model.explain(X[:40], policy="sampled", random_state=0)
    assert explanation.source.sampled
    assert explanation[:3].source.sampled
    path = tmp_path / "page.html"
    explanation.to_html(path, model=True)
    page = open_page(path)
    check = page.locator("#check").filter(has_text="the recorded rows were sampled")
    check.wait_for()
    assert page.locator("header").get_by_role("alert").count() == 0
    assert np.mean([len(n.steps) for n in explanation]) > 0
