"""Pages of certified models: the stopping rule and the sentence of the certificate."""

import json
import re

import numpy as np
import pytest

from helpers import page_models
from helpers.pages import COMPUTE, TOLERANCE, numbers, python_text

# The guarantee does not matter here, so that models may be certified on their training rows.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*calibration rows equal:suwr.exceptions.CertificationWarning"
)


@pytest.fixture(scope="module")
def cancer():
    return page_models.cancer()


def test_page_data_contain_the_certificate(cancer, tmp_path):
    model, X, _ = cancer
    certified = model.certify(X, level=0.1)
    certified.explain(X[:3]).to_html(tmp_path / "p.html", model=True)
    text = (tmp_path / "p.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[1])
    assert data["certificate"] == certified.certificate_.sentence
    assert data["model"]["stop_odds"] == certified.certificate_.threshold
    model.explain(X[:3]).to_html(tmp_path / "p.html", model=True)
    data = json.loads(
        re.search(r'id="data">(.*?)</script>', (tmp_path / "p.html").read_text(), re.DOTALL)[1]
    )
    assert (data["certificate"], data["model"]["stop_odds"]) == ("", None)


@pytest.mark.parametrize(
    "arguments",
    [{"rule": "confidence", "level": 0.1}, {"rule": "gain", "level": 0.15},
     {"abstain": True, "level": 0.2}],
)  # fmt: skip
def test_page_decides_like_the_certified_model(arguments, cancer, open_page, tmp_path):
    model, X, _ = cancer
    certified = model.certify(X, **arguments)
    assert not certified.certificate_.reveals_everything
    explanation = certified.explain(X)
    path = tmp_path / "certified.html"
    explanation.to_html(path, model=True)
    page = open_page(path)
    computed = page.evaluate(COMPUTE)
    for narrative, found in zip(explanation, computed, strict=True):
        if found["margin"] < TOLERANCE:
            continue
        assert found["ended"] == narrative.ended
        for own, other in zip(
            numbers(narrative), (found["stops"], found["predictions"]), strict=True
        ):
            np.testing.assert_allclose(other, own, atol=TOLERANCE)
        assert found["text"] == python_text(narrative, found)
    assert len({len(found["units"]) for found in computed}) > 1
    assert page.text_content("#certificate") == certified.certificate_.sentence
    page.wait_for_selector("#check:has-text('reproduces')")
