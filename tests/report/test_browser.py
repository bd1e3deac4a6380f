"""Interaction with a page, in a real browser."""

import math
import re

import numpy as np
import pytest

from helpers import page_models
from helpers.page_models import HOSTILE
from helpers.pages import answer, text_of
from suwr import Explanation


def plain(value):
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def test_stepping_with_buttons_and_keys(pages, open_page):
    path, explanation = pages("cancer")
    page, row = open_page(path), next(i for i, n in enumerate(explanation) if len(n.steps) > 2)
    narrative, last = explanation[row], len(explanation[row].steps)
    page.locator("#list button").nth(row).click()
    where, sentence = page.locator(".where"), page.locator(".sentence")
    assert where.text_content() == f"Step {last} of {last}"
    page.get_by_role("button", name="First step").click()
    assert where.text_content() == "Start"
    assert "Before anything is revealed" in sentence.text_content()
    assert page.get_by_role("button", name="Previous step").is_disabled()
    page.keyboard.press("ArrowRight")
    assert where.text_content() == f"Step 1 of {last}"
    shown = sentence.text_content().replace("\u00a0", " ")
    assert shown in narrative.text()
    page.get_by_role("button", name="Next step").press("Enter")
    assert page.get_by_role("button", name="Go to step 2").get_attribute("aria-current") == "step"
    # Screen readers announce the text of the step.
    announcement = page.locator(".announcement")
    assert announcement.get_attribute("aria-live") == "polite"
    shown = sentence.text_content().replace("\u00a0", " ")
    assert announcement.text_content() == f"Step 2. {shown}"
    page.get_by_role("button", name="Last step").click()
    page.keyboard.press("ArrowLeft")
    assert where.text_content() == f"Step {last - 1} of {last}"
    assert text_of(page) == narrative.text()


def test_steps_say_why_they_were_taken_and_what_they_speak_for(pages, open_page):
    path, explanation = pages("cancer")
    page = open_page(path)

    def outlook(usual, alternatives, served):
        others = " or ".join(alternatives)
        parts = [usual and f"Moves {usual}.", others and f"{others} {served}."]
        return " ".join(part for part in parts if part)

    for row in (0, 1, 2):
        page.locator("#list button").nth(row).click()
        narrative, items = explanation[row], page.locator(".steps > li")
        for number, step in enumerate(narrative.steps, start=1):
            told = items.nth(number - 1).text_content().replace("\u00a0", " ")
            assert outlook(step.usual, step.alternatives, "would have served as well") in told
            assert narrative.says(number) in told
    model = page_models.cancer()[0]
    session = model.acquire()
    page.get_by_role("button", name=re.compile("New case")).click()
    told = page.get_by_role("form", name="Question").text_content().replace("\u00a0", " ")
    expected = outlook(session.next_usual, session.next_alternatives, "would serve as well")
    assert expected
    assert expected in told


def test_searching_filtering_and_sorting(pages, open_page):
    path, explanation = pages("cancer")
    y = page_models.cancer()[2]
    page = open_page(path)
    count, listed = page.locator("#count"), page.locator("#list button")
    assert count.text_content() == "250 of 250 rows"
    assert listed.count() == 100
    page.get_by_role("button", name="Show more rows").click()
    assert listed.count() == 200
    page.get_by_role("button", name="Show more rows").click()
    assert listed.count() == 250

    page.get_by_label("Predicted").select_option(label="benign")
    benign = [n.row for n in explanation if n.label == "benign"]
    assert [int(t) for t in listed.locator(".label").all_text_contents()] == benign[:100]
    page.get_by_label("Correct").select_option(label="wrong")
    wrong = sum(n.label == "benign" != t for n, t in zip(explanation, y, strict=True))
    assert count.text_content() == f"{wrong} of 250 rows"
    page.get_by_label("Correct").select_option(label="any")
    page.get_by_label("Predicted").select_option(label="any class")

    unit = explanation[0].steps[-1].unit
    page.get_by_label("Using").select_option(label=unit)
    using = [n for n in explanation if any(s.unit == unit for s in n.steps)]
    assert count.text_content() == f"{len(using)} of 250 rows"
    page.locator("#filters").get_by_label("Steps", exact=True).select_option(
        label=str(len(explanation[0].steps))
    )
    both = [n for n in using if len(n.steps) == len(explanation[0].steps)]
    assert count.text_content() == f"{len(both)} of 250 rows"
    page.reload()

    page.get_by_label("Search").fill(f"{unit.upper()} benign")
    found = [
        n
        for n, truth in zip(explanation, y, strict=True)
        if "benign" in (n.label, truth)
        and all(any(w in s.unit for s in n.steps) for w in unit.split())
    ]
    assert count.text_content() == f"{len(found)} of 250 rows"
    page.get_by_label("Search").fill("no such thing")
    assert count.text_content() == "0 of 250 rows"
    page.get_by_label("Search").fill("")
    page.get_by_label("Sort by").select_option(label="fewest steps")
    lengths = [int(t.split()[0]) for t in listed.locator(".length").all_text_contents()]
    assert lengths == sorted(len(n.steps) for n in explanation)[:100]


def test_selecting_rows_with_mouse_and_keys(pages, open_page):
    path, explanation = pages("cancer")
    page = open_page(path)
    page.locator('[data-row="3"]').click()
    assert text_of(page) == explanation[3].text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert text_of(page) == explanation[4].text()
    assert page.locator('[data-row="4"]').get_attribute("aria-current") == "true"
    page.keyboard.press("ArrowLeft")
    assert "4" in page.locator("h2").text_content()


def test_changed_number_gives_the_narrative_of_python(pages, open_page):
    path, explanation = pages("cancer")
    model, X, _ = page_models.cancer()
    page = open_page(path)
    step = explanation[0].steps[0]
    changed = X.iloc[:1].copy()
    changed[step.unit] = changed[step.unit] / 2
    field = page.get_by_label(step.unit, exact=True)
    field.fill(str(changed[step.unit].iloc[0]))
    field.press("Enter")
    expected = model.explain(changed)[0]
    assert expected.text() != explanation[0].text()
    assert text_of(page) == expected.text()
    note = page.locator(".note")
    assert f"You changed {step.unit}" in note.text_content()
    # The field keeps the focus, and changes can be undone.
    assert field.evaluate("f => f === document.activeElement")
    field.fill("many")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    cell = page.locator(".cell", has=field)
    assert cell.get_by_role("alert").text_content().startswith("Please enter a number")
    assert cell.get_by_role("alert").is_visible()
    assert text_of(page) == expected.text()
    field.fill("")
    field.press("Enter")
    changed[step.unit] = np.nan
    assert text_of(page) == model.explain(changed)[0].text()
    page.get_by_role("button", name="Undo").click()
    assert text_of(page) == expected.text()
    page.get_by_role("button", name="Restore the recorded row").click()
    assert text_of(page) == explanation[0].text()
    assert note.count() == 0


def test_changed_category_gives_the_narrative_of_python(pages, open_page):
    path, explanation = pages("mixed")
    model, X, _ = page_models.mixed()
    page = open_page(path)
    number = next(
        i for i, n in enumerate(explanation) if any(HOSTILE in s.columns for s in n.steps)
    )
    page.locator(f'[data-row="{number}"]').click()
    for label, value in (("north", "north"), ("any other value", "elsewhere"), ("missing", None)):
        page.get_by_label(HOSTILE, exact=True).select_option(label=label)
        changed = X.iloc[number : number + 1].copy()
        changed[HOSTILE] = [value]
        expected = (
            model.explain(changed)[0]
            .text()
            .replace("elsewhere (never seen in training: treated as any other)", "any other value")
        )
        assert text_of(page) == expected


def test_questions_with_unknown_invalid_and_undone_answers(pages, open_page):
    path, _ = pages("mixed")
    model, X, _ = page_models.mixed()
    page = open_page(path)
    page.get_by_role("button", name=re.compile("New case")).click()
    form = page.get_by_role("form", name="Question")
    for row in (0, 7):
        session = model.acquire()
        while not session.done:
            values = {c: plain(X.iloc[row][c]) for c in session.next_columns}
            if row == 7 and len(session.known) == 0:
                values = dict.fromkeys(values)
            assert session.next_unit in form.text_content()
            if any(isinstance(v, float) for v in values.values()):
                answer(page, dict.fromkeys(values, "nonsense"))
                assert "Please enter a number" in form.get_by_role("alert").text_content()
            answer(page, values)
            session.observe(values)
        assert form.count() == 0
        assert "The model has stopped asking." in page.locator(".note").text_content()
        assert text_of(page) == session.narrative("new case").text()
        # Undo the last answer and give another one.
        page.get_by_role("button", name="Undo").click()
        assert form.count() == 1
        session.undo()
        assert session.next_unit in form.text_content()
        answer(page, dict.fromkeys(session.next_columns))
        session.observe(dict.fromkeys(session.next_columns))
        while not session.done:
            form.get_by_role("button", name="Missing").click()
            session.observe(dict.fromkeys(session.next_columns))
        assert text_of(page) == session.narrative("new case").text()
        page.get_by_role("button", name="Start again").click()
        assert "Question 1" in form.text_content()


def test_question_requires_a_choice(pages, open_page):
    page = open_page(pages("mixed")[0])
    page.get_by_role("button", name=re.compile("New case")).click()
    form = page.get_by_role("form", name="Question")
    while form.locator("select").count() == 0:
        form.get_by_role("button", name="Missing").click()
    before = form.text_content()
    form.get_by_role("button", name="Answer").click()
    assert "missing" in form.get_by_role("alert").text_content()
    assert form.text_content().startswith(before[:10])


def test_images_can_be_edited(pages, open_page):
    path, explanation = pages("digits")
    model, X, _ = page_models.digits()
    number = next(i for i, n in enumerate(explanation) if len(n.steps) == 8)
    page = open_page(path)
    page.locator(f'[data-row="{number}"]').click()
    narrative, pixels = explanation[number], page.locator(".image [data-pixel]")
    shown = {c for step in narrative.steps for c in step.columns}
    assert pixels.count() == len(shown)
    assert page.locator(".image .mark").all_text_contents() == [str(i) for i in range(1, 9)]
    assert page.locator(".image .patch.present").count() == 1
    page.get_by_label("Show hidden pixels").check()
    assert pixels.count() == 64
    page.get_by_label("Show hidden pixels").uncheck()
    page.get_by_role("button", name="First step").click()
    assert pixels.count() == 0
    page.get_by_role("button", name="Last step").click()

    # Erase the pixels that the first step revealed.
    changed = X[number : number + 1].copy()
    page.get_by_label("Draw with").fill("0")
    page.locator(".image").scroll_into_view_if_needed()
    for name, value in narrative.steps[0].values.items():
        if value != 0:
            page.locator(f'[data-pixel="{name[1:]}"]').click()
            changed[0, int(name[1:])] = 0
            if page.locator(f'[data-pixel="{name[1:]}"]').count() == 0:
                break
    expected = model.explain(changed)[0]
    assert expected.text() != narrative.text()
    assert text_of(page).split("\n", 1)[1] == expected.text().split("\n", 1)[1]


def test_page_without_hidden_values_asks_for_them(pages, open_page, tmp_path):
    model, X, _ = page_models.cancer()
    explanation = model.explain(X[:40])
    path = tmp_path / "page.html"
    explanation.to_html(path, hidden_values=False)
    # Halving the first value changes the features that some row reveals.
    changed = X[:40].copy()
    first = explanation[0].steps[0].unit
    changed[first] = changed[first] / 2
    narratives = model.explain(changed)
    number = next(
        i
        for i, (old, new) in enumerate(zip(explanation, narratives, strict=True))
        if {s.unit for s in new.steps} - {s.unit for s in old.steps}
    )
    page = open_page(path)
    page.locator(f'[data-row="{number}"]').click()
    page.get_by_label(first, exact=True).fill(str(changed[first].iloc[number]))
    page.get_by_label(first, exact=True).press("Enter")
    form = page.get_by_role("form", name="Question")
    asked = 0
    while form.count():
        column = form.locator("input").get_attribute("aria-label")
        answer(page, {column: plain(changed[column].iloc[number])})
        asked += 1
    assert asked > 0
    assert text_of(page) == narratives[number].text()


def test_narratives_from_a_file_without_model(pages, open_page, tmp_path):
    _, explanation = pages("mixed")
    path = tmp_path / "page.html"
    Explanation.from_json(explanation.to_json()).to_html(path)
    page = open_page(path)
    assert text_of(page) == explanation[0].text()
    assert page.locator("#blank").is_hidden()
    assert page.locator(".steps input, .steps select").count() == 0
    assert "without their model" in page.locator("footer").text_content()


def test_regression_shows_value_and_truth(pages, open_page):
    path, explanation = pages("diabetes")
    page = open_page(path)
    assert page.locator(".value strong").text_content() == f"{explanation[0].prediction[0]:.4g}"
    assert "Truth: 151" in page.locator(".truth").text_content()
    assert page.locator(".chart path.line").count() > 0


def test_hostile_names_are_shown_as_text(pages, open_page):
    page = open_page(pages("mixed")[0])
    assert page.title() == "mixed <script>"
    assert HOSTILE in page.locator("main").text_content()
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    # The content security policy forbids injected scripts and requests.
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_interactive_elements_have_accessible_names(pages, open_page):
    for name in ("mixed", "digits"):
        page = open_page(pages(name)[0])
        for start in (False, True):
            if start:
                page.get_by_role("button", name=re.compile("New case")).click()
            tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
            roles = ("button", "textbox", "searchbox", "combobox", "checkbox", "slider", "img")
            found = [n for n in tree if n.get("role", {}).get("value") in roles]
            assert len(found) > 20
            assert [n for n in found if not n.get("name", {}).get("value")] == []


@pytest.mark.parametrize("name", ["cancer", "mixed", "digits"])
def test_no_horizontal_scrolling_on_a_phone(name, pages, open_page):
    page = open_page(
        pages(name)[0], viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True
    )
    fits = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(fits)
    page.get_by_text("Rows", exact=True).tap()
    page.locator('[data-row="2"]').tap()
    assert page.locator("#rows").get_attribute("open") is None
    page.get_by_role("button", name=re.compile("New case")).tap()
    assert page.evaluate(fits)


def test_light_and_dark_theme(pages, open_page):
    def brightness(scheme):
        page = open_page(pages("cancer")[0], color_scheme=scheme)
        colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    assert brightness("light") > 600 > 150 > brightness("dark")
