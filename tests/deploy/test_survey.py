"""SurveyJS forms lead every row to the result of the form, in the engine of SurveyJS itself."""

import html

import numpy as np
import pandas as pd
import pytest

from helpers.models import randomize
from helpers.services import VERSION, install, survey_answers, walk_survey
from suwr import SUWRClassifier
from suwr.deploy import ModelPolicy, make_form
from suwr.deploy.form_files import form_surveyjs, survey_items
from suwr.deploy.forms import walk_rows

NAMES = {"braces": "{q1} ${brace} {pageno}", "markup": "<b>{q1}</b>", "label": "{q1} & {{q1}}"}


@pytest.fixture(scope="module")
def engine(request):
    """The folder of survey-core."""
    folder = request.config.cache.mkdir("survey-core") / VERSION
    reason = install(folder)
    if reason:
        pytest.skip(reason)
    return folder


pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


@pytest.fixture(scope="module")
def model():
    """Numbers from 1e-300 to 1e305, of both signs and missing, and names with references."""
    rng = np.random.RandomState(0)
    n = 300
    X = pd.DataFrame(
        {
            "tiny": rng.randn(n) * 1e-9,
            "tiniest": 10.0 ** -rng.randint(280, 300, n) * rng.rand(n),
            "huge": rng.randn(n) * 1e18,
            "hugest": rng.randn(n) * 1e305,
            "negative": -1 - rng.rand(n),
            NAMES["braces"]: np.where(rng.rand(n) < 0.3, np.nan, rng.randn(n) * 1e-5),
            NAMES["markup"]: rng.choice([f"{{q{i}}}" for i in range(14)], n),
            "whole": rng.randint(-50, 50, n),
        }
    )
    y = np.where(rng.rand(n) < 0.5, NAMES["label"], "well")
    fitted = SUWRClassifier(
        max_epochs=1, training={"hidden_size": 8}, max_steps=5, random_state=0
    ).fit(X, y)

    def accept():
        policy = ModelPolicy(fitted)
        return set(X.columns) <= {page.column for page in make_form(policy, max_pages=12).pages}

    return randomize(fitted, accept), X


@pytest.fixture(scope="module")
def form(model):
    return make_form(ModelPolicy(model[0]), max_pages=12, target=NAMES["braces"])


def expected_pages(form, walk, value_of):
    """Return the names of the pages that a person sees."""
    names = []
    for page in walk.asked:
        numeric = form.codes[page.column].categories is None
        if numeric and any(branch.answer.missing for branch in page.branches):
            names.append(f"page_q{page.number}_known")
        if not (numeric and pd.isna(value_of(page.column))):
            names.append(f"page_q{page.number}")
    return [*names, f"page_r{walk.page.number}"]


def check_walks(engine, form, walks, values):
    """Walk through the survey and compare the pages, their texts and the result of each row."""
    rows = [[survey_answers(form, walk, v)] for walk, v in zip(walks, values, strict=True)]
    found = walk_survey(engine, form_surveyjs(form, note="See {q1}."), rows)
    items = {f"page_{item.name}": item for item in survey_items(form)}
    for walk, value_of, shown in zip(walks, values, found, strict=True):
        assert shown["pages"] == expected_pages(form, walk, value_of)
        asked = [items[name] for name in shown["pages"][:-1]]
        # Names in braces are shown as they are.
        assert shown["texts"] == [
            f"Form: {NAMES['braces']}", "See {q1}.",
            *(text for item in asked for text in (item.text, *(c.text for c in item.choices))),
        ]  # fmt: skip
        more = "" if walk.page.complete else " (the model would ask for more)"
        assert html.unescape(shown["result"]) == f"<p>{form.result(walk.page)}{more}</p>"
    return {text for shown in found for text in shown["texts"]}


def test_rows_reach_their_results(engine, model, form):
    fitted, X = model
    walks = walk_rows(form, fitted, fitted._read(X))
    assert {name for walk in walks for name in walk.columns} == set(X.columns)
    assert len({walk.page for walk in walks}) > 15
    assert any(name.endswith("_known") for w, row in zip(walks, X.iloc, strict=True)
               for name in expected_pages(form, w, row.get))  # fmt: skip
    # One row of each path; bounds are tested below.
    chosen = list({(w.columns, w.page.number): i for i, w in enumerate(walks)}.values())
    texts = check_walks(engine, form, [walks[i] for i in chosen], [X.iloc[i].get for i in chosen])
    assert {NAMES["braces"], NAMES["markup"], "{q3}"} <= texts


def test_bounds_of_answers_are_exact(engine, model, form):
    """Values at the bounds, and the floats on either side of them, are in the right interval."""
    rng = np.random.RandomState(0)
    bounds = {name: [0.0, -0.0] for name in model[1]}
    for page in form.pages:
        for branch in page.branches:
            high = branch.answer.high
            if high is not None:
                bounds[page.column] += [high, np.nextafter(high, -np.inf).item(),
                                        np.nextafter(high, np.inf).item()]  # fmt: skip
    rows = []
    for _ in range(100):
        row = {name: values[rng.randint(len(values))] for name, values in bounds.items()}
        row[NAMES["markup"]] = ["{q3}", "{q10}", "never seen"][rng.randint(3)]
        rows.append(row)
    walks = [form.walk(row.get) for row in rows]
    assert len({walk.page for walk in walks}) > 15
    check_walks(engine, form, walks, [row.get for row in rows])


def test_changed_answers_leave_nothing_behind(engine, model, form):
    fitted, X = model
    walks = walk_rows(form, fitted, fitted._read(X[:20]))
    answers = [survey_answers(form, w, row.get) for w, row in zip(walks, X[:20].iloc, strict=True)]
    found = walk_survey(
        engine,
        form_surveyjs(form),
        [list(pair) for pair in zip(answers[::-1], answers, strict=True)],
    )
    for walk, row, given, shown in zip(walks, X[:20].iloc, answers, found, strict=True):
        assert shown["pages"] == expected_pages(form, walk, row.get)
        assert set(shown["data"]) == set(given)
