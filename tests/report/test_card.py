"""The model card, in Markdown."""

import numpy as np
import pandas as pd
import pytest

import suwr
from suwr.estimators.files import from_bytes, to_bytes

QUICK = {
    "trainer": "reinforce",
    "max_epochs": 8,
    "training": {"hidden_size": 16},
    "random_state": 0,
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"age": rng.randint(18, 80, 300), "a|b": rng.choice(["Oslo", "Rome"], 300)})
    return X, (X["age"] > 40).astype(int).rename("ill")


@pytest.fixture(scope="module")
def model(rows):
    columns = {
        "age": suwr.Column("Age at entry", "years"),
        "ill": suwr.Column(categories={0: "healthy", 1: "ill"}),
    }
    return suwr.SUWRClassifier(columns=columns, sparsity_weight=0.001, **QUICK).fit(*rows)


def test_it_states_training_scores_and_limits(model, tmp_path):
    path = tmp_path / "card.md"
    model.model_card(path)
    card = path.read_text()
    assert card.startswith("# Model card: ill\n")
    assert "(healthy, ill)" in card
    assert "Fitted to 270 rows; 30 further rows were held out." in card
    assert "| Age at entry | 18 to 79 years |" in card
    assert "| a\\|b | Oslo, Rome |" in card
    assert "| 30 rows | this model | constant | all features |" in card
    assert "None; `certify` adds one." in card
    assert model._file_digest() in card
    # A model that was loaded has the same card.
    from_bytes(to_bytes(model)).model_card(tmp_path / "again.md")
    assert (tmp_path / "again.md").read_text() == card


def test_given_rows_are_scored_and_minimised(model, rows, tmp_path):
    X, y = rows
    model.model_card(tmp_path / "card.md", X[:50], y[:50])
    card = (tmp_path / "card.md").read_text()
    assert "| 50 rows |" in card
    assert suwr.minimisation_report(model, X[:50], y[:50]).summary() in card
    with pytest.raises(ValueError, match="both X and y"):
        model.model_card(tmp_path / "none.md", X[:50])


def test_a_certificate_is_quoted(model, rows, tmp_path):
    with pytest.warns(suwr.exceptions.CertificationWarning):
        certified = model.certify(*rows, risk="disagreement", level=0.5)
    certified.model_card(tmp_path / "card.md")
    assert certified.certificate_.sentence in (tmp_path / "card.md").read_text()
