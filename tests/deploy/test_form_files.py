"""Written forms lead every row to the same result as the form itself."""

import html
import io
import json
import re
import zipfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from helpers.models import randomize
from helpers.services import survey_answers
from helpers.strings import MARKUP as HOSTILE
from suwr import SUWRClassifier
from suwr.cli import app
from suwr.data.encode import ColumnCode, number_code
from suwr.deploy import ModelPolicy, make_form, write_form
from suwr.deploy.form_files import FORMATS, survey_items
from suwr.deploy.forms import Answer, Branch, Form, Page, walk_rows

NAME = '"x" ${q1} <b>{q1}</b>\n'


@pytest.fixture(scope="module")
def model():
    """Columns of all types; one has a name that would break a careless file."""
    rng = np.random.RandomState(0)
    n = 240
    X = pd.DataFrame(
        {
            "age": rng.randint(18, 80, n),
            NAME: np.where(rng.rand(n) < 0.2, np.nan, rng.randn(n) * 1e-4),
            "level": rng.randint(0, 3, n),
            "member": rng.rand(n) < 0.5,
            "city": rng.choice(["Oslo", "Rome", "a & b <c>"], n),
        }
    )
    y = np.where(X["member"], "ill & <b>", "well")
    fitted = SUWRClassifier(
        max_epochs=1, training={"hidden_size": 8}, max_steps=4, random_state=0
    ).fit(X, y)
    randomize(fitted, lambda: fitted.select(X).any(axis=0).all())
    return fitted, X


@pytest.fixture(scope="module")
def form(model):
    return make_form(ModelPolicy(model[0]), max_pages=40, target='what "it" is')


@pytest.fixture(scope="module")
def walks(model, form):
    fitted, X = model
    found = walk_rows(form, fitted, fitted._read(X[:60]))
    assert {name for walk in found for name in walk.columns} == set(X.columns)
    return found


def compare(name, operator, value, given):
    if name not in given:
        return False
    if operator == "answered":
        return True
    if operator in ("=", "in"):
        return given[name] in (value if operator == "in" else [value])
    return given[name] > value if operator == ">" else given[name] <= value


def test_items_are_shown_exactly_on_the_way_of_a_row(model, form, walks):
    items = list(survey_items(form))
    assert len({item.name for item in items}) == len(items)
    for number, walk in enumerate(walks):
        given = survey_answers(form, walk, model[1].iloc[number].get)
        shown = [i.name for i in items if all(compare(*part, given) for part in i.shown_if)]
        assert set(given) == {name for name in shown if not name.startswith("r")}
        assert [n for n in shown if n.startswith("r")] == [f"r{walk.page.number}"]


def test_xlsform_is_accepted_by_pyxform(form, tmp_path):
    xls2xform = pytest.importorskip("pyxform.xls2xform")
    path = tmp_path / "form.xlsx"
    write_form(form, path, "xlsform", note="Regret: ${none}.")
    converted = xls2xform.convert(xlsform=path, validate=False)
    assert not [w for w in converted.warnings or [] if "error" in w.lower()]
    items = list(survey_items(form))
    # One bind for each question and result, with the condition of the form.
    binds = dict(re.findall(r'<bind nodeset="/\w+/(\w+)"([^>]*)/>', converted.xform))
    assert {item.name for item in items} <= set(binds)
    for item in items:
        assert ("relevant=" in binds[item.name]) == bool(item.shown_if)
        kind = {"integer": 'type="int"', "decimal": 'type="decimal"'}.get(item.kind, "type=")
        assert kind in binds[item.name]
    assert converted.xform.count("<select1 ") == sum(i.kind == "choice" for i in items)


def test_equal_forms_are_equal_files(form, tmp_path):
    for format in FORMATS:
        contents = []
        for name in "ab":
            write_form(form, tmp_path / name, format)
            contents.append((tmp_path / name).read_bytes())
        assert contents[0] == contents[1]
    write_form(form, tmp_path / "x.xlsx", "xlsform")
    assert zipfile.ZipFile(tmp_path / "x.xlsx").testzip() is None
    with pytest.raises(ValueError, match="'format' parameter of write_form must be one of"):
        write_form(form, tmp_path / "x", "pdf")


def test_surveyjs_conditions(form, tmp_path):
    write_form(form, tmp_path / "form.json", "surveyjs", note="About")
    content = json.loads((tmp_path / "form.json").read_text())
    pages = {page["elements"][0]["name"]: page for page in content["pages"]}
    for item in survey_items(form):
        page = pages[item.name]
        assert ("visibleIf" in page) == bool(item.shown_if)
        for name, operator, value in item.shown_if:
            if operator in (">", "<="):
                [literal] = re.findall(
                    rf"{{{name}}} {operator} (-?[0-9]+(?:\.[0-9]+)?)(?: |$)", page["visibleIf"]
                )
                assert float(literal) == value
        if item.kind == "choice":
            shown = [choice["text"] for choice in page["elements"][0]["choices"]]
            assert shown == [choice.text for choice in item.choices]
    results = [e for p in pages.values() for e in p["elements"] if e["type"] == "html"]
    assert all("<b>" not in element["html"] for element in results)


def test_bounds_are_written_exactly():
    bounds = [-1e305, -1.5e-300, 0.1 + 0.2, 1_700_000_000.25, 1_700_000_000.5, np.float64(1e300)]
    intervals = list(pairwise([None, *bounds, None]))
    branches = [Branch(Answer(0.0, 0.1, *edges), i) for i, edges in enumerate(intervals, start=2)]
    results = [Page(branch.page, None, None, (), (0.5, 0.5), 0.1, True) for branch in branches]
    first = Page(1, "x", "x", tuple(branches), (0.5, 0.5), 1.0, True)
    form = Form((first, *results), {"x": ColumnCode()}, ("no", "yes"))

    conditions = [
        page["visibleIf"] for page in json.loads(FORMATS["surveyjs"](form, ""))["pages"][1:]
    ]
    with zipfile.ZipFile(io.BytesIO(FORMATS["xlsform"](form, ""))) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    relevant = [html.unescape(text) for text in re.findall(r">(\$\{q1\}[^<]*)</t>", sheet)]
    number = r"-?[0-9]+(?:\.[0-9]+)?"
    for written in (conditions, relevant):
        found = [re.findall(rf"[>=] ({number})(?= |$)", text) for text in written]
        expected = [[edge for edge in edges if edge is not None] for edges in intervals]
        assert [[float(literal) for literal in edges] for edges in found] == expected
    page = html.unescape(FORMATS["html"](form, "").decode())
    assert [float(v.replace(",", "")) for v in re.findall(r"at most (\S+)", page)] == bounds
    assert [float(v.replace(",", "")) for v in re.findall(r"more than (\S+)", page)] == bounds


def test_numbers_that_are_categories_are_told_apart():
    values = (0.12345678, 0.12345679, 1_234_567.5)
    texts = [Answer(v, 0.1, values=(v,)).text for v in values]
    branches = tuple(Branch(Answer(v, 0.1, values=(v,)), 2) for v in values)
    pages = (Page(1, "x", "x", branches, (0.5, 0.5), 1.0, True),
             Page(2, None, None, (), (0.5, 0.5), 1.0, True))  # fmt: skip
    form = Form(pages, {"x": ColumnCode(categories=values)}, ("no", "yes"))
    assert texts == ["0.12345678", "0.12345679", "1,234,567.5"]
    assert [choice.text for choice in next(survey_items(form)).choices] == texts


def test_integers_have_at_most_nine_digits():
    """Neither ODK nor FHIR has larger ones."""
    for largest, kind in ((999_999_999.0, True), (2.0**31, False)):
        assert number_code(np.array([0.0, 1.0, largest] * 5)).integer is kind


def test_dot_has_every_page_and_branch(form, tmp_path):
    write_form(form, tmp_path / "form.dot", "dot")
    text = (tmp_path / "form.dot").read_text()
    assert len(re.findall(r"^  p\d+ \[", text, flags=re.MULTILINE)) == len(form.pages)
    n_branches = sum(len(page.branches) for page in form.pages)
    assert len(re.findall(r"^  p\d+ -> p\d+ \[", text, flags=re.MULTILINE)) == n_branches
    # Quotes in names are escaped.
    assert all(line.count('"') - line.count('\\"') in (0, 2) for line in text.splitlines())


def test_html_form_in_a_browser(browser, model, form, walks, tmp_path):
    path = tmp_path / "form.html"
    write_form(form, path, "html", note="Regret <0.1>.")
    page = browser.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda r: problems.append(r.url) if r.url != path.as_uri() else None)
    page.goto(path.as_uri())
    assert "Regret <0.1>." in page.inner_text("p.note >> nth=0")
    for walk in walks[:8]:
        for asked, following in zip(walk.asked, [*walk.asked[1:], walk.page], strict=True):
            visible = page.locator("section:visible")
            assert visible.count() == 1
            assert visible.get_attribute("id") == f"page-{asked.number}"
            page.locator(f"section:visible a[href='#page-{following.number}']").first.click()
        assert page.inner_text("section:visible .result") == form.result(walk.page)
        page.click("section:visible >> text=Start again")
    # On paper, all pages are shown.
    page.emulate_media(media="print")
    assert page.locator("section:visible").count() == len(form.pages)
    assert len(page.pdf()) > 1000
    page.close()
    assert problems == []


def luminance(colour):
    """Return the relative luminance of 'rgb(r, g, b)', as WCAG defines it."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_links_of_the_html_form_are_readable(scheme, browser, form, tmp_path):
    write_form(form, tmp_path / "form.html")
    page = browser.new_page(color_scheme=scheme)
    page.goto((tmp_path / "form.html").as_uri())
    # The colour of the page is that of the system colour Canvas in the root element.
    colours = page.evaluate("""() => {
        const root = document.documentElement;
        root.style.backgroundColor = "Canvas";
        const link = document.querySelector("section li a");
        return [getComputedStyle(root).backgroundColor, getComputedStyle(link).color];
    }""")
    page.close()
    low, high = sorted(map(luminance, colours))
    assert (high + 0.05) / (low + 0.05) > 4.5


@pytest.mark.parametrize("format", list(FORMATS))
def test_hostile_names(format, tmp_path):
    rng = np.random.RandomState(0)
    X = pd.DataFrame({name: rng.rand(30) for name in dict.fromkeys(HOSTILE[:6])})
    fitted = SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, random_state=0).fit(
        X, rng.rand(30) > 0.5
    )
    randomize(fitted, lambda: fitted.cost(X).mean() > 1)
    made = make_form(ModelPolicy(fitted), max_pages=5, target=HOSTILE[0])
    write_form(made, tmp_path / "form", format, note=HOSTILE[1])
    content = (tmp_path / "form").read_bytes()
    # JSON and graphs are not HTML.
    assert format in ("surveyjs", "dot") or b"<script" not in content
    if format == "xlsform":
        xls2xform = pytest.importorskip("pyxform.xls2xform")
        (tmp_path / "form").rename(tmp_path / "form.xlsx")
        assert "<h:html" in xls2xform.convert(xlsform=tmp_path / "form.xlsx", validate=False).xform


def test_command(model, tmp_path, monkeypatch):
    fitted, X = model
    monkeypatch.chdir(tmp_path)
    fitted.save("m.suwr")
    X.assign(health=np.where(X["member"], "ill & <b>", "well")).to_csv("rows.csv", index=False)
    run = CliRunner().invoke
    done = run(app, ["form", "m.suwr", "--data", "rows.csv", "--max-pages", "9"])
    assert done.exit_code == 0, done.output
    assert "9 questions" in done.stdout
    assert "240 rows: another prediction than the policy" in done.stdout
    assert "regret" not in done.stdout
    done = run(app, ["form", "m.suwr", "--format", "xlsform", "--data", "rows.csv",
                     "--target", "health"])  # fmt: skip
    assert "(standard error)" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} >= {"m-form.html", "m-form.xlsx"}
    done = run(app, ["form", "m.suwr", "--format", "pdf"])
    assert done.exit_code == 1
    assert "must be one of 'html', 'xlsform', 'surveyjs', 'dot'" in done.stderr
