"""Pages of narratives with known values, unavailable units or a budget, in a real browser."""

import numpy as np
import pytest

from helpers.tables import mixed_table
from suwr import Costs, SUWRRegressor


@pytest.mark.filterwarnings("ignore::suwr.exceptions.StartWarning")
def test_the_page_words_narratives_as_python_does(mixed_model, open_page, tmp_path):
    X = mixed_table(seed=1)[0].iloc[:30]
    rng = np.random.RandomState(0)
    known = rng.rand(*X.shape) < 0.3
    known[0] = [True, True, False, False, False, False]
    explanation = mixed_model.explain(
        X, known=known, available=rng.rand(*X.shape) < 0.7,
        max_cost=rng.randint(0, 4, len(X)),
    )  # fmt: skip
    explanation.to_html(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    rows = "suwr.data.rows.map(suwr.recordedNarrative)"
    texts = page.evaluate(f"() => {rows}.map((n) => suwr.narrativeText(suwr.data, n))")
    assert texts == [narrative.text() for narrative in explanation]
    sentence = explanation[0].given.sentences()[0]
    assert sentence.startswith("Known at the start: age is ")
    assert sentence in page.locator(".heading").inner_text()


@pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")
def test_the_page_counts_visits_and_states_costs(open_page, tmp_path):
    X = np.random.RandomState(0).randn(60, 4)
    settings = {
        "max_epochs": 5,
        "training": {"hidden_size": 16, "n_predictors": 2},
        "random_state": 1,
    }
    reg = SUWRRegressor(costs=Costs(of=2, visit=0.5), sparsity_weight=0.0, **settings)
    explanation = reg.fit(X, X[:, 0]).explain(X[:6], costs=[1.0, 2.0, 3.0, 4.0], max_cost=6)
    assert {len(narrative.steps) for narrative in explanation} <= {1, 2}
    explanation.to_html(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    rows = "suwr.data.rows.map(suwr.recordedNarrative)"
    texts = page.evaluate(f"() => {rows}.map((n) => suwr.narrativeText(suwr.data, n))")
    assert texts == [narrative.text() for narrative in explanation]
    assert "Costs of this row: x0 1, x1 2, x2 3, x3 4." in texts[0]
    assert " in 1 visit." in " ".join(texts) or " in 2 visits." in " ".join(texts)
