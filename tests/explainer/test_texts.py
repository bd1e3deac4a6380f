"""`SUWRExplainer` around a model of raw texts."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import suwr
from helpers.tables import BAD, GOOD, NEUTRAL, reviews
from suwr import SUWRExplainer, TextUnits
from suwr.exceptions import ModelOutputError
from suwr.explainer.rows import TextRows, draw_texts
from suwr.texts.splitting import sentence_spans

TEXTS, Y = reviews(120)
MODEL = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, Y)
SMALL = {"max_epochs": 3, "training": {"hidden_size": 8}, "queries_per_row": 3, "random_state": 0}


def sentences(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def recorded(texts):
    """The model, which must be given a list of str."""
    assert type(texts) is list
    assert all(type(text) is str for text in texts)
    return MODEL.predict_proba(texts)


@pytest.fixture(scope="module")
def explainer():
    units = TextUnits(max_units=6, vectorizer=recorded)
    options = SMALL | {"max_epochs": 8, "sparsity_weight": 0.01}
    return SUWRExplainer(
        recorded, classes=MODEL.classes_, groups=units, max_steps=3, **options
    ).fit(TEXTS)


def test_queries_are_texts_of_known_sentences(explainer):
    assert explainer.n_queries_ <= 3 * len(TEXTS)
    assert list(explainer.queries_[: len(TEXTS)]) == TEXTS
    drawn = explainer.queries_[len(TEXTS) :]
    assert len(drawn) > len(TEXTS)
    known = {*GOOD, *BAD, *NEUTRAL}
    assert {s for text in drawn for s in sentences(text)} <= known
    assert len(set(drawn) - set(TEXTS)) > 20
    assert explainer.outputs_ == pytest.approx(MODEL.predict_proba(list(explainer.queries_)))


def test_narratives_show_sentences_and_the_output_of_the_model(explainer):
    texts = TEXTS[:6]
    explanation = explainer.explain(texts)
    for narrative, text, p in zip(explanation, texts, MODEL.predict_proba(texts), strict=True):
        assert narrative.model_output == pytest.approx(tuple(p))
        own = sentences(text)
        for step in narrative.steps:
            place = int(step.unit.split()[1]) - 1
            shown = f"“{own[place]}”" if place < len(own) else "absent"
            assert step.values == {step.unit: shown}
        shown = explainer.text_units_.highlight(narrative, text)
        assert narrative.comparison in shown.text()
    fidelity = explainer.fidelity(texts)
    assert fidelity.n_units == 6
    assert fidelity.mean_cost == pytest.approx(explainer.cost(texts).mean())
    assert explainer.features(texts).shape == (6, 12)
    assert list(explainer.predict(texts)) == [n.label for n in explanation]


def test_unread_sentences_have_no_influence(explainer):
    texts, _ = reviews(30, seed=3)
    expected = explainer.explain(texts, query=False)
    n_poisoned = 0
    for narrative, text in zip(expected, texts, strict=True):
        own = sentences(text)
        read = {int(step.unit.split()[1]) - 1 for step in narrative.steps}
        last = max(i for i in {*read, 0} if i < len(own))
        other = [own[i] if i in read else "Something wonderful else!" for i in range(last + 1)]
        # If the absence of a sentence was read, there must be none.
        if all(i < len(own) for i in read):
            other += ["Dreadful."] * 3
        changed = " ".join(other)
        n_poisoned += changed != text
        found = explainer.explain([changed], query=False)[0]
        assert found.to_dict() | {"row": narrative.row} == narrative.to_dict()
        assert np.array_equal(explainer.select([changed]), explainer.select([text]))
        assert np.array_equal(explainer.cost([changed]), explainer.cost([text]))
    assert n_poisoned > 20


def test_audit_finds_no_leak(explainer):
    report = suwr.audit(explainer.estimator_, explainer.features(TEXTS), random_state=0)
    assert report.verdict == "leak-free by construction"


def test_attributions_are_functions_of_texts(explainer):
    def by_length(texts):
        return np.nan_to_num(abs(explainer.features(texts)))

    texts = TEXTS[:20]
    evaluator = explainer.estimator_
    fidelity = explainer.fidelity(texts, compare={"length": by_length}, evaluator=evaluator)
    assert fidelity.curves["length"].cost == (1.0, 2.0, 3.0)


def test_words_and_values():
    model = make_pipeline(TfidfVectorizer(), Ridge()).fit(TEXTS, np.linspace(0.0, 1.0, 120))
    explainer = SUWRExplainer(model, groups=TextUnits("word", max_units=8), **SMALL).fit(TEXTS)
    narrative = explainer.explain(TEXTS[:1])[0]
    assert narrative.n_units == 8
    assert narrative.text().splitlines()[-1].startswith("The model says 0.")


def test_default_vectors_and_a_constant_model():
    units = TextUnits(max_units=3)
    explainer = SUWRExplainer(MODEL, groups=units, **SMALL).fit(TEXTS)
    assert explainer.text_units_.get_feature_names_out()[0] == "sentence 1: score of 1"
    assert not hasattr(units, "vectorizer_")
    source = TextRows(units)
    source.fit(TEXTS, np.tile([0.9, 0.1], (len(TEXTS), 1)))
    assert source.units.n_features_per_unit_ == 16


@pytest.mark.parametrize("from_end", [False, True])
def test_drawn_texts_keep_positions(from_end):
    texts = ["a1. a2. a3.", "b1. b2. b3. b4. b5."]
    units = TextUnits(max_units=5, from_end=from_end, vectorizer=lambda t: [len(x) for x in t])
    drawn = draw_texts(units.fit(texts), texts, 200, np.random.RandomState(0))
    assert len(drawn) == 200
    pattern = {"a1. a2. a3. ", "b1. b2. b3. b4. b5. "}
    assert pattern <= set(drawn)
    for text in drawn:
        numbers = [int(word[1]) for word in text.split()]
        offsets = [4 if from_end and word[0] == "a" else 2 for word in text.split()]
        places = [n + offset for n, offset in zip(numbers, offsets, strict=True)]
        assert places == sorted(set(places))
    assert any("a" in text and "b" in text for text in drawn)
    assert draw_texts(units, texts, 0, np.random.RandomState(0)) == []


def test_errors():
    table = SUWRExplainer(lambda X: X[:, 0], **SMALL | {"max_epochs": 1}).fit(np.eye(20))
    assert not hasattr(table, "text_units_")
    with pytest.raises(ModelOutputError, match="The model failed"):
        SUWRExplainer(lambda texts: texts + 1, groups=TextUnits(), **SMALL).fit(TEXTS)
