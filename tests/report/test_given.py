"""Pages of narratives with known values, unavailable units or a budget, in a real browser."""

import numpy as np
import pytest
from raw_cells import mixed_table


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
