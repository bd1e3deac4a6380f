"""Receipts of many rows at once, and their verification by issuing them again."""

import hashlib
import json
from random import Random

import numpy as np
import pandas as pd
import pytest
from forged_receipts import ALTERATIONS, FORGERIES, issued_by, mutant, sign
from raw_cells import OBJECTS, poisoned_cells
from receipt_models import MODELS, fitted_models

from suwr import SUWRClassifier, verify
from suwr.estimators.results import ReceiptIssuer, receipt_texts
from suwr.estimators.verify import POISONS, Verifier, poisoned

pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


@pytest.fixture(scope="module")
def fitted():
    return fitted_models()


@pytest.fixture(scope="module")
def lettered():
    """A model of one text column whose categories need escapes in JSON or contain brackets."""
    words = ['a "b"', "c]d", "e\\f", "g\nh", "ü,ö", '","values":[', "null", "1"]
    X = pd.DataFrame({"a]": np.tile(words, 10), "b": np.arange(80.0) % 7})
    model = SUWRClassifier(
        groups={"both]": ["a]", "b"]}, sparsity_weight=0.0, max_epochs=1, hidden_size=8,
        random_state=0,
    )  # fmt: skip
    return model.fit(X, np.arange(80) % 2 == 0), X[:20]


def texts_of(receipts):
    return [receipt.to_json() for receipt in receipts]


def replayed(model, texts):
    """The results of reading and replaying every text."""
    verifier = Verifier(model)
    verifier._reissuer = None
    return verifier.verify(texts)


@pytest.mark.parametrize("kind", MODELS)
def test_texts_are_those_of_explain(fitted, kind):
    model, X, receipts = fitted(kind)
    assert list(receipt_texts(model, X)) == texts_of(receipts)


def test_mean_features_choose_the_policy(fitted):
    model, X, receipts = fitted("range")
    mean = float(model.weight_range_.n_units.max())
    expected = [n.receipt() for n in model.explain(X, mean_features=mean)]
    texts = list(receipt_texts(model, X, mean_features=mean))
    assert texts == texts_of(expected) != texts_of(receipts)
    # Receipts of several λ in one batch.
    batch = [t for pair in zip(texts, texts_of(receipts), strict=True) for t in pair]
    assert None not in ReceiptIssuer(model, model.policy_).reissued(batch)


def test_labels_and_cells_that_need_escapes(lettered):
    model, X = lettered
    for index in (['a "b"', "]", "ü\\"] * 6 + ["\n", ""], np.arange(20) - 3, np.arange(20) / 2):
        rows = X.set_axis(index)
        expected = texts_of(n.receipt() for n in model.explain(rows))
        assert list(receipt_texts(model, rows)) == expected
        assert all(Verifier(model).verify(expected))


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certificate_is_part_of_the_text(fitted):
    model, X, _ = fitted("mixed")
    certified = model.certify(X, level=0.4, confidence=0.6)
    texts = list(receipt_texts(certified, X[:5]))
    assert texts == texts_of(n.receipt() for n in certified.explain(X[:5]))
    assert None not in ReceiptIssuer(certified, certified.policy_).reissued(texts)
    assert ReceiptIssuer(model, model.policy_).reissued(texts) == [None] * 5


def test_rows_that_start_from_known_values():
    X = pd.DataFrame(np.random.RandomState(0).randn(60, 3), columns=list("abc"))
    model = SUWRClassifier(known_at_start=["a"], max_epochs=1, hidden_size=8, random_state=0)
    model.fit(X, X["b"] > 0)
    texts = list(receipt_texts(model, X[:10]))
    assert texts == texts_of(n.receipt() for n in model.explain(X[:10]))
    assert all('"given":{"known":{"a":' in text for text in texts)
    assert all(Verifier(model).verify(texts))


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_rows_have_equal_texts(fitted, poison):
    model, X, receipts = fitted("mixed")
    other = poisoned(X, model.select(X), poison, np.random.RandomState(0))
    assert list(receipt_texts(model, other)) == texts_of(receipts)


def test_any_object_in_hidden_cells_gives_equal_texts(fitted):
    model, X, receipts = fitted("mixed")
    columns = poisoned_cells(X, model.select(X), OBJECTS)
    other = pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns.items()})
    assert list(receipt_texts(model, other)) == texts_of(receipts)


@pytest.mark.parametrize("kind", MODELS)
def test_genuine_texts_are_issued_again(fitted, kind):
    model, _, receipts = fitted(kind)
    issuer = ReceiptIssuer(model, model.policy_)
    texts = texts_of(receipts)
    assert issuer.reissued(texts) == [receipt.near_ties for receipt in receipts]
    assert issuer.reissued([text.encode() + b" " for text in texts[:3]]) != [None] * 3
    assert Verifier(model).verify(texts) == replayed(model, texts)


@pytest.mark.parametrize("kind", MODELS)
def test_mutants_have_the_results_of_a_replay(fitted, kind):
    model, _, receipts = fitted(kind)
    texts = texts_of(receipts[:40])
    mutants = [
        found
        for family in [*FORGERIES, *ALTERATIONS]
        for number in range(20, 35)
        if (found := mutant(family, texts, number, Random(f"{kind} {family} {number}"))) is not None
    ]
    issuer = ReceiptIssuer(model, model.policy_)
    accepted = [
        m for m, ties in zip(mutants, issuer.reissued(mutants), strict=True) if ties is not None
    ]
    assert all(issued_by(model, text) for text in accepted)
    mixed = [text for pair in zip(mutants, texts * 10, strict=False) for text in pair]
    assert Verifier(model).verify(mixed) == replayed(model, mixed)


def with_digest(text):
    """A text that need not be JSON, with the digest of its content."""
    body = text[: text.rindex(',"sha256"')] + "}"
    return f'{body[:-1]},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}'


@pytest.mark.parametrize(
    "label",
    ["01", "-0", "1.0", "true", "null", "", '"x', '"\\u0061"', "[1]", '1,"more":2', "9" * 5000],
)
def test_labels_of_another_form_are_not_issued(fitted, label):
    model, _, receipts = fitted("mixed")
    text = with_digest(receipts[0].to_json().replace('"row":0,', f'"row":{label},', 1))
    assert ReceiptIssuer(model, model.policy_).reissued([text]) == [None]
    # Other forms of a label in JSON are read and replayed.
    assert bool(verify(text, model)) == (label in ("-0", '"\\u0061"'))


@pytest.mark.parametrize(
    "form", ["{}.0", "{}e0", " {}", "+{}", "0{}", "{}_0", "inf", "-inf", "nan", "NaN", "Infinity",
             '"{}"', "true", "[{}", "{},{}", "", "{}\u0660"],
)  # fmt: skip
def test_cells_of_another_form_are_not_issued(fitted, form):
    model, _, receipts = fitted("regressor")
    text = next(t for t in texts_of(receipts) if '"values":[' in t)
    place = text.index('"values":[') + len('"values":[')
    end = text.index("]", place)
    changed = text[:place] + form.format(*[text[place:end]] * 2) + text[end:]
    assert ReceiptIssuer(model, model.policy_).reissued([with_digest(changed)]) == [None]
    # Other forms of the same number in JSON are read and replayed.
    assert bool(verify(with_digest(changed), model)) == (form in ("{}e0", " {}"))


def test_other_forms_of_a_genuine_receipt_are_read_and_replayed(fitted):
    model, _, receipts = fitted("mixed")
    text = receipts[0].to_json()
    spaced = json.dumps(json.loads(text))
    assert ReceiptIssuer(model, model.policy_).reissued([spaced, b"\xff", "{"]) == [None] * 3
    assert verify(spaced, model)
    elsewhere = sign(json.loads(text) | {"environment": "another platform"})
    results = Verifier(model).verify([elsewhere, text])
    assert [(r.verified, r.exact) for r in results] == [(True, False), (True, True)]


@pytest.mark.parametrize(
    "part", ['{"unit":', '{"unit":"x","columns":["x"],"values":[', "[", '"row":']
)
def test_long_texts_are_read_in_linear_time(fitted, part):
    model, _, receipts = fitted("regressor")
    text = receipts[0].to_json()
    place = text.index(',"steps":[') + len(',"steps":[')
    long = text[:place] + part * (2_000_000 // len(part)) + text[place:]
    # Time that is quadratic in the length of the text would be hours.
    assert ReceiptIssuer(model, model.policy_).reissued([with_digest(long)]) == [None]
