"""The summary of many rows, filters by error, and the layout of the page."""

import numpy as np
import pytest

from helpers import page_models
from suwr.narrative.effects import measure_usage
from suwr.plots import budget_curve


def bars(page, name):
    """Return label and number of every bar of a list."""
    items = page.get_by_role("list", name=name).locator("li")
    return {
        item.locator(".name").text_content(): item.locator(".number").evaluate(
            "n => n.firstChild.textContent.replace('\\u00a0', ' ')"
        )
        for item in items.all()
    }


def percent(share):
    return float(share.removesuffix(" %")) / 100


def test_summary_of_a_classifier(pages, open_page):
    path, explanation = pages("described")
    model, _, y = page_models.described()
    page = open_page(path)
    page.get_by_role("button", name="Summary").click()
    used = bars(page, "Rows that use a feature")
    assert len(used) == len(measure_usage(explanation))
    for usage in measure_usage(explanation):
        columns = model.units_.columns_of(list(model.units_.names).index(usage.unit))
        names = [model.encoder_.names[c] for c in columns]
        label = model.fitted_policy().description.unit_text(usage.unit, names)
        assert percent(used[label]) == pytest.approx(usage.share_of_rows, abs=0.0051)
    lengths = np.array([len(n.steps) for n in explanation])
    stops = bars(page, "When rows stop")
    assert len(stops) == lengths.max() + 1
    for n, share in enumerate(stops.values()):
        assert percent(share) == pytest.approx((lengths == n).mean(), abs=0.0051)
    _, _, accuracy = budget_curve(explanation, y)
    shown = bars(page, "Accuracy by number of steps")
    assert [percent(v) for v in shown.values()] == pytest.approx(accuracy.tolist(), abs=0.0051)

    # The summary is of the rows that pass the filters.
    page.get_by_label("Correct").select_option(label="correct")
    correct = sum(n.label == truth for n, truth in zip(explanation, y, strict=True))
    assert f"{correct} of 60 rows" in page.locator("h2").text_content()
    assert list(bars(page, "Accuracy by number of steps").values())[-1] == "100 %"
    page.get_by_label("Search").fill("no such thing")
    assert "0 of 60 rows" in page.locator("h2").text_content()
    page.get_by_label("Search").fill("")
    page.locator("#list button").first.click()
    assert "Row" in page.locator("h2").text_content()


def test_filters_and_summary_by_error(pages, open_page):
    path, explanation = pages("diabetes")
    y = np.array(page_models.diabetes()[2])
    page = open_page(path)
    errors = np.abs([n.prediction[0] for n in explanation] - y)
    listed = page.locator("#list .label")
    page.get_by_label("Sort by").select_option(label="largest error")
    assert [int(t) for t in listed.all_text_contents()] == np.argsort(-errors).tolist()
    page.get_by_label("Error").select_option(label="largest 10 %")
    assert [int(t) for t in listed.all_text_contents()] == np.argsort(-errors)[:6].tolist()
    page.get_by_label("Error").select_option(label="smaller half")
    assert {int(t) for t in listed.all_text_contents()} == set(np.argsort(errors)[:30])
    page.get_by_label("Error").select_option(label="any")
    page.get_by_role("button", name="Summary").click()
    shown = bars(page, "Mean absolute error by number of steps")
    longest = max(len(n.steps) for n in explanation)
    for t, text in enumerate(shown.values()):
        cut = [n.predictions[min(t, len(n.steps))][0] for n in explanation]
        assert float(text) == pytest.approx(np.abs(cut - y).mean(), rel=1e-3)
    assert len(shown) == longest + 1


def test_arrow_keys_work_at_once(pages, open_page):
    path, explanation = pages("described")
    page = open_page(path)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator(".words pre").text_content() == explanation[2].text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".words pre").text_content() == explanation[1].text()
    assert (
        page.locator(".where").text_content().startswith(f"Step {len(explanation[1].steps) - 1} of")
    )
    # They work from the summary too.
    page.get_by_role("button", name="Summary").click()
    page.keyboard.press("ArrowDown")
    assert page.locator(".words pre").text_content() == explanation[0].text()


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overlaps_or_overflows(pages, open_page, width):
    path, _ = pages("described")
    page = open_page(path, viewport={"width": width, "height": 844})
    for row in range(8):
        page.evaluate(f"document.querySelector('[data-row=\"{row}\"]').click()")
        boxes = page.evaluate(
            """() => [...document.querySelectorAll(".steps li")].map((li) =>
              [".then", "select, input"].map((s) => [...li.querySelectorAll(s)].map((n) => {
                const { left, right, top, bottom } = n.getBoundingClientRect();
                return [left, right, top, bottom];
              })))"""
        )
        for (then,), fields in boxes:
            for field in fields:
                apart = field[1] <= then[0] or field[0] >= then[1]
                assert apart or field[3] <= then[2] or field[2] >= then[3]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_chart_names_the_features(pages, open_page):
    path, explanation = pages("described")
    page = open_page(path)
    row = max(range(len(explanation)), key=lambda i: len(explanation[i].steps))
    page.locator(f'[data-row="{row}"]').click()
    names = [t.text_content() for t in page.locator(".chart .tick title").all()]
    words = explanation.description
    assert names == [
        "start",
        *(words.step_label(step) for step in explanation[row].steps),
    ]
