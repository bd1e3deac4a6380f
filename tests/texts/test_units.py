"""`TextUnits` from texts to rows, and the invariant from the raw text on."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from helpers.tables import BAD, GOOD, NEUTRAL, reviews
from suwr import SUWRClassifier, TextUnits
from suwr.exceptions import TableError
from suwr.texts.splitting import sentence_spans
from suwr.texts.units import TextScores

TEXTS, Y = reviews(150)
SMALL = {
    "max_epochs": 6,
    "training": {"hidden_size": 16},
    "random_state": 0,
    "sparsity_weight": 0.01,
}
WORDS = CountVectorizer(vocabulary=["acting", "dog", "time"])


def sentences(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def test_known_vectors():
    units = TextUnits(max_units=3, vectorizer=WORDS)
    rows = units.fit_transform(["Acting, acting! No dog. Time. A dog.", "Time.", ""])
    nan = [np.nan] * 3
    expected = [[2, 0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 1, *nan, *nan], [*nan, *nan, *nan]]
    assert np.array_equal(rows, expected, equal_nan=True)
    assert units.groups_ == {
        "sentence 1": [0, 1, 2], "sentence 2": [3, 4, 5], "sentence 3": [6, 7, 8],
    }  # fmt: skip
    assert units.get_feature_names_out()[3:5].tolist() == ["sentence 2: acting", "sentence 2: dog"]


def test_positions_from_the_end():
    units = TextUnits(max_units=2, from_end=True, vectorizer=WORDS).fit(TEXTS)
    rows = units.transform(["Acting. No dog. Time.", "Time."])
    nan = [np.nan] * 3
    assert np.array_equal(rows, [[0, 0, 1, 0, 1, 0], [0, 0, 1, *nan]], equal_nan=True)
    assert units.unit_names_ == ["sentence 1 from the end", "sentence 2 from the end"]


def test_spans_and_passages():
    spans = TextUnits("span", span_size=2, max_units=3, vectorizer=WORDS)
    rows = spans.fit_transform(["acting time dog dog time"])
    assert rows.tolist() == [[1, 0, 1, 0, 2, 0, 0, 0, 1]]
    assert spans.unit_names_[0] == "span 1"
    lines = TextUnits(str.splitlines, max_units=2, vectorizer=WORDS)
    assert lines.fit_transform(["a dog\nis acting"]).tolist() == [[0, 1, 0, 1, 0, 0]]
    assert lines.unit_names_ == ["passage 1", "passage 2"]


def test_words_are_counted_in_the_whole_text():
    units = TextUnits("word", max_units=2)
    rows = units.fit_transform(["dog dog cat the", "dog bird the", "cat the"])
    assert units.unit_names_ == ["cat", "dog"]
    assert rows.tolist() == [[1, 2], [0, 1], [1, 0]]
    assert units.groups_ == {"cat": [0], "dog": [1]}
    assert len(TextUnits("word").fit(TEXTS).unit_names_) > 10
    with pytest.raises(ValueError, match="no spans"):
        units.spans("dog")


@pytest.mark.parametrize(
    "vectorizer",
    [TfidfVectorizer(), HashingVectorizer(), CountVectorizer(analyzer="char"), TruncatedSVD()],
)
def test_words_need_columns_of_their_own(vectorizer):
    with pytest.raises(ValueError, match="'vectorizer' parameter of TextUnits must be None, Count"):
        TextUnits("word", vectorizer=vectorizer).fit(TEXTS)
    TextUnits("word", vectorizer=TfidfVectorizer(norm=None)).fit(TEXTS)


def test_vectors_of_sentences():
    svd = TextUnits(max_units=4).fit(TEXTS)
    assert svd.n_features_per_unit_ == 16
    assert svd.transform(TEXTS[:2]).shape == (2, 64)
    chosen = make_pipeline(CountVectorizer(), SelectKBest(chi2, k=3))
    rows = TextUnits(max_units=2, vectorizer=chosen).fit_transform(TEXTS, Y)
    assert rows.shape == (150, 6)
    lengths = TextUnits(max_units=2, vectorizer=lambda texts: [len(text) for text in texts])
    assert lengths.fit_transform(["ab. c"]).tolist() == [[3, 1]]
    assert clone(lengths).fit(["a"]).n_features_per_unit_ == 1


def test_scores_are_the_default_with_a_target():
    units = TextUnits(max_units=7)
    cross = units.fit_transform(TEXTS, Y)
    assert units.get_feature_names_out()[0] == "sentence 1: score of good"
    rows = units.transform(TEXTS)
    # Scores by a model that has seen the text are larger, and the absent sentences are the same.
    assert np.array_equal(np.isnan(cross), np.isnan(rows))
    assert not np.array_equal(cross, rows, equal_nan=True)
    scores = units.transform([*GOOD, *BAD])[:, 0]
    assert (scores[:3] > 0).all()
    assert (scores[3:] < 0).all()
    three = np.array(["a", "b", "c"])[np.arange(150) % 3]
    assert TextUnits().fit(TEXTS, three).n_features_per_unit_ == 3
    values = TextUnits().fit(TEXTS, np.linspace(0.0, 1.0, 150))
    assert values.get_feature_names_out()[0] == "sentence 1: score"


def test_cross_fitted_scores_are_those_of_models_of_other_texts():
    # One text is the only one with its words: a model of the other texts cannot score them.
    texts = ["unique words", *TEXTS[:40]]
    labels = np.array(["good", *Y[:40]])
    units = TextUnits(max_units=1)
    cross = units.fit_transform(texts, labels)[0, 0]
    fold = next(
        test for _, test in KFold(5, shuffle=True, random_state=0).split(texts) if 0 in test
    )
    others = [i for i in range(41) if i not in fold]
    scores = TextScores().fit([texts[i] for i in others], labels[others])
    assert cross == scores.transform(["unique words"])[0] == scores.transform([""])[0]
    assert units.transform(texts)[0, 0] > cross


def test_tags_say_that_rows_are_texts():
    tags = get_tags(TextUnits())
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array


def test_pandas_output():
    pytest.importorskip("pandas")
    units = TextUnits(max_units=2, vectorizer=WORDS).set_output(transform="pandas")
    frame = units.fit_transform(TEXTS)
    assert list(frame.columns) == list(units.get_feature_names_out())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"unit": "letter"}, "'unit' parameter of TextUnits must be 'sentence', 'span', 'word'"),
        ({"max_units": 0}, "'max_units' parameter of TextUnits must be None or an int"),
        ({"span_size": 0.5}, "'span_size' parameter"),
        ({"from_end": "yes"}, "'from_end' parameter"),
        ({"vectorizer": 3}, "'vectorizer' parameter of TextUnits must be None, a transformer"),
        ({"vectorizer": lambda t: np.full(len(t), np.nan)}, "must return finite numbers"),
        ({"vectorizer": lambda t: np.zeros(3)}, "must return one row per text"),
        # The vectors depend on the other texts.
        ({"vectorizer": lambda t: np.array([len(set(t))] * len(t))}, "from this text alone"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        TextUnits(**parameters).fit(TEXTS)


def test_invalid_texts():
    with pytest.raises(TableError, match="at least one sentence"):
        TextUnits().fit(["", " "])
    with pytest.raises(TableError, match="'y' must have 150 values"):
        TextUnits().fit(TEXTS, Y[:3])
    with pytest.raises(TableError, match="single str"):
        TextUnits().fit("text")


VECTORIZERS = {
    "scores": None,
    "tf-idf": TfidfVectorizer(),
    "components": make_pipeline(TfidfVectorizer(), TruncatedSVD(5, random_state=0)),
    "dense": make_pipeline(
        TfidfVectorizer(),
        FunctionTransformer(lambda X: X.toarray(), accept_sparse=True),
        TruncatedSVD(5, random_state=0),
    ),
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_a_block_depends_on_its_sentence_alone(name):
    units = TextUnits(max_units=6, vectorizer=VECTORIZERS[name]).fit(TEXTS, Y)
    rng = np.random.RandomState(0)
    rows = units.transform(TEXTS[:40]).reshape(40, 6, -1)
    for i, text in enumerate(TEXTS[:40]):
        own = sentences(text)
        place = rng.randint(min(6, len(own)))
        others = [str(rng.choice([*GOOD, *BAD, *NEUTRAL, "x" * 500 + "."])) for _ in range(place)]
        after = ["Later one."] * rng.randint(9)
        changed = " ".join([*others, own[place], *after])
        alone = units.transform([changed]).reshape(6, -1)[place]
        assert alone.tobytes() == rows[i, place].tobytes()


def poisoned_texts(text, read, rng):
    """Replace the sentences that were not read, in the same number and in other numbers."""
    own = sentences(text)
    last = max(read, default=-1)
    strange = ["!!!", "x" * 2000 + ".", "好。", "wonderful " * 50 + "!", "\x00\x1b[31m.", "N/A?"]
    filled = [own[i] if i in read and i < len(own) else str(rng.choice(strange))
              for i in range(max(len(own), last + 1))]  # fmt: skip
    absent = [i for i in read if i >= len(own)]
    end = min(absent) if absent else last + 1
    yield " ".join(filled[: len(own)])
    if not absent:
        yield " ".join(filled[:end])
        yield " ".join([*filled[:end], *rng.choice([*strange, *GOOD, *BAD], size=9)])
        yield "\n\n".join(filled[:end])


@pytest.fixture(scope="module")
def fitted():
    units = TextUnits(max_units=5)
    model = SUWRClassifier(max_steps=2, **SMALL)
    rows = units.fit_transform(TEXTS, Y)
    return units, model.set_params(groups=units.groups_).fit(rows, Y)


def test_unread_sentences_have_no_influence(fitted):
    units, model = fitted
    texts, _ = reviews(40, seed=1)
    rng = np.random.RandomState(0)
    masks = model.select(units.transform(texts))
    explanation = model.explain(units.transform(texts))
    n_poisoned = 0
    for i, text in enumerate(texts):
        read = [number for number, columns in enumerate(units.groups_.values())
                if masks[i, columns].any()]  # fmt: skip
        assert 0 < len(read) < 5
        shown = units.narrate(explanation[i : i + 1], [text])[0].to_dict()
        for other in poisoned_texts(text, read, rng):
            n_poisoned += other != text
            row = units.transform([other])
            assert np.array_equal(model.select(row)[0], masks[i])
            assert model.predict_proba(row).tobytes() == (
                model.predict_proba(units.transform([text])).tobytes()
            )
            found = model.explain(row)
            state = units.narrate(found, [other])[0].to_dict()
            assert state | {"row": i} == shown
            # A display without unread text is the same too.
            expected = units.highlight(explanation[i], text, unread=False)
            assert units.highlight(found[0], other, unread=False).passages == expected.passages
    assert n_poisoned > 60


def test_unread_words_have_no_influence():
    units = TextUnits("word", max_units=12).fit(TEXTS)
    model = SUWRClassifier(groups=units.groups_, max_steps=3, **SMALL)
    model.fit(units.transform(TEXTS), Y)
    texts, _ = reviews(30, seed=2)
    for text in texts:
        row = units.transform([text])
        mask = model.select(row)[0]
        read = {name for name, (column,) in units.groups_.items() if mask[column]}
        kept = [w for w in text.lower().replace(".", " ").replace("!", " ").split() if w in read]
        hidden = [name for name in units.unit_names_ if name not in read]
        other = " ".join(["Unseen", *hidden * 3, *kept, "tokens 12345 好."])
        changed = units.transform([other])
        assert np.array_equal(changed[0, mask], row[0, mask])
        assert not np.array_equal(changed, row)
        assert np.array_equal(model.select(changed)[0], mask)
        assert model.predict_proba(changed).tobytes() == model.predict_proba(row).tobytes()


def test_a_text_has_the_same_row_in_every_batch():
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, Y)
    units = TextUnits(max_units=4, vectorizer=model.predict_proba).fit(TEXTS)
    rows = units.transform(TEXTS)
    alone = np.concatenate([units.transform([text]) for text in TEXTS[:20]])
    assert alone.tobytes() == rows[:20].tobytes()
    assert units.transform(TEXTS[100:]).tobytes() == rows[100:].tobytes()
