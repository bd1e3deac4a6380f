"""Receipts of fitted models: verification by replay, forgeries, poisoning and near ties."""

import copy
import hashlib
import json
import pickle
from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes

import suwr
from helpers.models import MODELS, fitted_models
from helpers.receipts import ALTERATIONS, FORGERIES, chain, issued_by, mutant, sign
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import Receipt, SUWRClassifier, verify
from suwr.baselines import GDFSClassifier
from suwr.estimators.verify import POISONS, Verifier, poisoned

pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


@pytest.fixture(scope="module")
def fitted():
    return fitted_models()


@pytest.mark.parametrize("kind", MODELS)
def test_receipts_are_verified_from_their_text(fitted, kind):
    model, X, receipts = fitted(kind)
    results = Verifier(model).verify([r.to_json() for r in receipts])
    assert len(results) == len(X)
    assert kind != "mixed" or len({len(r.steps) for r in receipts}) > 1
    assert all(r.verified and r.exact and r.reason == "" for r in results)
    expected = model.predict(X).tolist()
    assert [r.answer for r in receipts] == expected
    # One by one, as in a batch.
    assert [verify(r, model) for r in receipts[:3]] == results[:3]


@pytest.mark.parametrize("kind", MODELS)
def test_parsed_receipts_are_verified_after_storage(fitted, kind):
    """Databases reorder keys, and those of JavaScript have one type of numbers."""

    def stored(value):
        if isinstance(value, dict):
            return {key: stored(value[key]) for key in sorted(value, reverse=True)}
        if isinstance(value, list):
            return [stored(part) for part in value]
        return float(value) if type(value) is int else value

    model, _, receipts = fitted(kind)
    states = [json.loads(receipt.to_json()) for receipt in receipts[:10]]
    results = Verifier(model).verify([*states, *map(stored, states)])
    assert all(result.verified and result.exact for result in results)
    assert "is not JSON" in str(verify({"row": object()}, model))


def test_labels_and_cells_that_need_escapes():
    words = ['a "b"', "c]d", "e\\f", "g\nh", "ü,ö", '","values":[', "null", "1"]
    X = pd.DataFrame({"a]": np.tile(words, 10), "b": np.arange(80.0) % 7})
    model = SUWRClassifier(groups={"both]": ["a]", "b"]}, max_epochs=1, training={"hidden_size": 8})
    model.fit(X, np.arange(80) % 2 == 0)
    for index in (['a "b"', "]", "ü\\"] * 6 + ["\n", ""], np.arange(20) - 3, np.arange(20) / 2):
        receipts = [n.receipt() for n in model.explain(X[:20].set_axis(index))]
        assert all(Verifier(model).verify([receipt.to_json() for receipt in receipts]))


def test_receipt_holds_revealed_columns_only(fitted):
    model, X, receipts = fitted("mixed")
    masks = model.select(X)
    for receipt, mask in zip(receipts, masks, strict=True):
        shown = {name for step in receipt.steps for name in step.columns}
        assert shown == set(X.columns[mask])


@pytest.mark.parametrize("poison", POISONS)
def test_receipts_of_poisoned_rows_are_equal_bit_for_bit(fitted, poison):
    model, X, receipts = fitted("mixed")
    other = poisoned(X, model.select(X), poison, np.random.RandomState(0))
    texts = [n.receipt().to_json() for n in model.explain(other)]
    assert texts == [r.to_json() for r in receipts]


def test_receipts_with_any_object_in_hidden_cells_are_equal_bit_for_bit(fitted):
    model, X, receipts = fitted("mixed")
    columns = poisoned_cells(X, model.select(X), OBJECTS)
    other = pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns.items()})
    texts = [n.receipt().to_json() for n in model.explain(other)]
    assert texts == [r.to_json() for r in receipts]


def test_digest_is_that_of_the_model_file(fitted, tmp_path):
    model, X, receipts = fitted("mixed")
    path = tmp_path / "m.suwr"
    model.save(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert receipts[0].model == sha256
    loaded = suwr.load(path)
    assert loaded.explain(X[:1])[0].receipt() == receipts[0]
    assert verify(receipts[0], path)
    assert verify(receipts[0].to_json(), str(path))
    # A later version would write another file; a loaded model remembers the one it was read from.
    loaded.validation_ = {}
    assert verify(receipts[0], loaded)
    for copied in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert verify(receipts[0], copied)
    # A model that was refitted or changed is another model.
    changed = copy.copy(loaded)
    changed.policy_ = copy.copy(loaded.policy_)
    assert str(verify(receipts[0], changed)).startswith("refused: it is of the model")
    refitted = copy.deepcopy(loaded).fit(*mixed_table())
    assert not verify(receipts[0], refitted)


@pytest.mark.parametrize("kind", MODELS)
def test_mutants_are_refused(fitted, kind, n_seeds):
    model, _, receipts = fitted(kind)
    texts = [r.to_json() for r in receipts[:40]]
    mutants = [
        found
        for family in [*FORGERIES, *ALTERATIONS]
        for number in range(20 * n_seeds)
        if (found := mutant(family, texts, number, Random(f"{kind} {family} {number}"))) is not None
    ]
    assert len(mutants) > 250
    results = Verifier(model).verify([*mutants, *texts])
    accepted = [m for m, r in zip(mutants, results, strict=False) if r]
    assert len(accepted) <= 3 * n_seeds
    assert all(issued_by(model, text) for text in accepted)
    assert all(results[len(mutants) :])


def receipt_with(receipts, n_steps):
    """The state of the first receipt with at least this many steps."""
    return json.loads(next(r for r in receipts if len(r.steps) >= n_steps).to_json())


def test_the_first_different_step_is_named(fitted):
    model, _, receipts = fitted("mixed")
    state = receipt_with(receipts, 2)
    names = [step["reveals"][0]["unit"] for step in state["steps"]]

    def result(change):
        forged = json.loads(json.dumps(state))
        change(forged)
        return verify(sign(chain(forged)), model)

    start = result(lambda s: s.update(start_stop_probability=0.25))
    assert (start.verified, start.step, start.exact) == (False, 0, True)
    assert str(start).startswith("differs before the first step: stop probability and prediction")
    second = result(lambda s: s["steps"][1].update(stop_probability=0.25))
    assert second.step == 2
    left_out = result(lambda s: s["steps"].pop(0))
    assert left_out.step == 1
    assert f"reveals {names[0]!r}, the receipt reveals {names[1]!r}" in left_out.reason
    cut = result(lambda s: s["steps"].__delitem__(slice(1, None)))
    assert str(cut).startswith(
        f"differs at step 2: the policy reveals {names[1]!r}, the receipt stops."
    )
    unknown = result(lambda s: s["steps"][0]["reveals"][0].update(unit="no such unit"))
    assert unknown.reason.endswith("the receipt reveals 'no such unit'.")
    columns = result(lambda s: s["steps"][1]["reveals"][0].update(columns=["other"]))
    assert (columns.step, "no unit" in columns.reason) == (2, True)


@pytest.mark.parametrize("value", ["7", 7.0, True, float(2**60), "x", 1e300 * 10])
def test_values_of_another_form_are_refused(fitted, value):
    model, _, receipts = fitted("regressor")
    state = receipt_with(receipts, 1)
    state["steps"][0]["reveals"][0]["values"] = [value]
    assert not verify(sign(state), model)


def test_numbers_that_no_float_represents_are_refused(fitted):
    model, _, receipts = fitted("regressor")
    state, huge = receipt_with(receipts, 1), 10**400
    given = {"known": {}, "unavailable": [], "exactly": False, "max_cost": huge}
    changes = [{"start": [huge]}, {"given": given}, {"start_stop_probability": huge}]
    changes.append({"given": given | {"max_cost": 1, "costs": {"x0": huge}}})
    for change in changes:
        assert "is invalid" in str(verify(sign(state | change), model))


def test_numbers_of_another_platform_are_compared_within_the_tolerance(fitted):
    for kind in ("mixed", "regressor"):
        model, _, receipts = fitted(kind)
        state = receipt_with(receipts, 2)
        state["environment"] = "another platform"
        scale = 1.0 if kind == "mixed" else model.target_scale_

        def shifted(by, state=state, scale=scale):
            other = json.loads(json.dumps(state))
            numbers = other["steps"][1]["prediction"]
            other["steps"][1]["prediction"] = [numbers[0] + by * scale, *numbers[1:]]
            return sign(chain(other))

        exact = verify(sign(state), model)
        assert (exact.verified, exact.exact) == (True, False)
        assert verify(shifted(5e-6), model)
        assert verify(shifted(2e-5), model).step == 2
        # The same difference is refused where numbers must be equal.
        state["environment"] = receipts[0].environment
        assert not verify(shifted(5e-6, state), model)


def test_condition_is_part_of_the_receipt_of_a_range(fitted):
    model, X, receipts = fitted("range")
    low, high = (
        model.explain(X[:5], sparsity_weight=weight)[0].receipt() for weight in (0.001, 0.1)
    )
    assert (low.condition, high.condition, receipts[0].condition) == (-1.0, 1.0, 0.0)
    # Receipts of several λ in one batch.
    assert all(Verifier(model).verify([low, receipts[0], high]))
    forged = json.loads(low.to_json()) | {"condition": 1.0}
    assert not verify(sign(forged), model)


def test_near_ties_are_stated(fitted):
    """Two units with equal logits, and a stop probability of one half."""
    model, X, _ = fitted("regressor")
    model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.policy_.network.policy.parameters():
            parameter.zero_()
    bias = list(model.policy_.network.policy.parameters())[-1]
    with torch.no_grad():
        bias[..., 0] = 1.0  # a large gain of continuing
    receipt = model.explain(X[:1])[0].receipt()
    # All but the last decision, which no unit is left for.
    assert receipt.near_ties == tuple(range(len(receipt.steps)))
    found = verify(receipt, model)
    assert found.verified
    assert "within rounding of a tie" in str(found)
    # On another platform, the decision may differ.
    state = json.loads(receipt.to_json()) | {"environment": "another", "near_ties": []}
    assert verify(sign(state), model).near_ties == receipt.near_ties
    steps = state["steps"]
    steps[0]["reveals"], steps[1]["reveals"] = steps[1]["reveals"], steps[0]["reveals"]
    swapped = verify(sign(chain(state)), model)
    assert not swapped
    assert swapped.reason.endswith("The decision is within rounding of a tie.")


def test_sessions_give_the_receipts_of_explain(fitted):
    for kind in ("mixed", "regressor"):
        model, X, receipts = fitted(kind)
        rows = X.to_dict("records") if hasattr(X, "iloc") else [
            {f"x{i}": v for i, v in enumerate(row)} for row in X
        ]  # fmt: skip
        for row, receipt in list(zip(rows, receipts, strict=True))[:5]:
            session = model.acquire()
            while not session.done:
                session.observe({name: row[name] for name in session.next_columns})
            assert session.narrative(receipt.narrative.row).receipt() == receipt
            session.undo()
            with pytest.raises(ValueError, match="still open"):
                session.narrative().receipt()


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certificate_must_be_that_of_the_model(fitted):
    model, X, receipts = fitted("mixed")
    certified = model.certify(X, level=0.4, confidence=0.6)
    receipt = certified.explain(X[:1])[0].receipt()
    assert receipt.certificate == json.loads(json.dumps(certified.certificate_.to_dict()))
    assert verify(receipt.to_json(), certified)
    forged = replace(receipt, certificate={**receipt.certificate, "level": 0.01})
    assert "certificate" in verify(forged, certified).reason
    # The certificate is part of the model file, whose digest a receipt contains.
    assert "digests" in verify(receipt, model).reason
    assert "digests" in verify(receipts[0], certified).reason


def test_other_models_are_refused(fitted):
    _, _, receipts = fitted("mixed")
    with pytest.raises(TypeError, match="The 'model' parameter of verify must be"):
        verify(receipts[0], object())
    X, y = load_diabetes(return_X_y=True)
    baseline = GDFSClassifier(max_epochs=1, hidden_size=8, max_steps=2, random_state=0)
    explanation = baseline.fit(X[:100], y[:100] > 140).explain(X[:2])
    with pytest.raises(ValueError, match=r"a model that can be saved\. Got GDFSClassifier"):
        explanation[0].receipt()


def test_sampled_narratives_have_no_receipt(fitted):
    model, X, _ = fitted("mixed")
    with pytest.raises(ValueError, match="policy='greedy'"):
        model.explain(X[:1], policy="sampled", random_state=0)[0].receipt()


def test_receipts_of_many_batches_are_those_of_single_rows(fitted):
    model, X, receipts = fitted("mixed")
    alone = [model.explain(X[i : i + 1])[0].receipt() for i in range(3)]
    assert alone == receipts[:3]
    assert Receipt.from_json(alone[0].to_json()) == receipts[0]
