"""Receipts as documents: writing, strict reading, and principal reasons."""

import json
from dataclasses import dataclass, replace

import pytest

from helpers.receipts import sign
from suwr import Explanation, Receipt
from suwr.exceptions import ReceiptError
from suwr.narrative.explanation import Narrative, Step
from suwr.narrative.reading import canonical_json
from suwr.narrative.receipt import MAX_BYTES, Origin, principal_reasons


@dataclass(frozen=True)
class StubIssuer:
    model: str = "ab" * 32
    environment: str = "here"
    condition: float | None = None
    certificate: dict | None = None


def lending(ended="decision", margins=(0.1, 0.2, 1e-7), **origin):
    start, middle, end = (0.7, 0.3), (0.2, 0.8), (0.1, 0.9)
    panel = Step({"panel": {"7": 1.5, "1": None}, "late": {"late": True}}, 0.25, start, middle)
    town = Step({"town": {"town": 'Öl "x"\n'}}, 0.75, middle, end)
    source = Origin(origin.pop("issuer", StubIssuer()), margins, **origin)
    steps, classes = (panel, town), ("paid", "late")
    return Narrative("A-1", start, 0.125, steps, ended, classes, 5, origin=source)


RECEIPT = lending().receipt()
TEXT = RECEIPT.to_json()


def test_receipt_round_trips_and_keeps_the_order_of_columns():
    read = Receipt.from_json(TEXT)
    assert read == RECEIPT
    assert read.to_json() == TEXT
    assert Receipt.from_json(TEXT.encode()) == RECEIPT
    assert list(read.steps[0].values) == ["7", "1", "late"]
    assert read.answer == "late"
    assert read.near_ties == (2,)
    assert "\n" not in TEXT
    # Another layout of the same content.
    pretty = json.dumps(json.loads(TEXT), indent=2)
    assert Receipt.from_json(pretty) == RECEIPT
    shuffled = json.dumps(dict(reversed(json.loads(TEXT).items())))
    assert Receipt.from_json(shuffled) == RECEIPT


def stored(value):
    """A value after storage in a database with its own order of keys and one type of numbers."""
    if isinstance(value, dict):
        return {key: stored(value[key]) for key in sorted(value, key=len)}
    if isinstance(value, list):
        return [stored(part) for part in value]
    return float(value) if type(value) in (int, float) else value


def test_receipts_survive_storage():
    certificate = {"level": 0.05, "n_rows": 540, "risk": "disagreement"}
    receipt = lending(issuer=StubIssuer(certificate=certificate, condition=1.0)).receipt()
    state = stored(json.loads(receipt.to_json()))
    assert state["n_units"] == 5.0
    for read in (Receipt.from_dict(state), Receipt.from_json(json.dumps(state, indent=1))):
        assert read == receipt
        assert read.sha256 == receipt.sha256
        assert read.to_json() == receipt.to_json()


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (-0.0, "0"), (0.1 + 0.2, "0.30000000000000004"), (1e-6, "0.000001"),
     (1.5e-7, "1.5e-7"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (-2.5e-300, "-2.5e-300"),
     (2.0**64, "18446744073709552000"), (2**64, "18446744073709551616"), (5e-324, "5e-324")],
)  # fmt: skip
def test_numbers_are_written_as_in_javascript(number, text):
    assert canonical_json([number, {"b": number, "a": True}]) == f'[{text},{{"a":true,"b":{text}}}]'


@pytest.mark.parametrize("state", [{"row": {1}}, {"row": float("nan")}, {}, {"format": b"3"}])
def test_dicts_that_are_no_receipts_are_refused(state):
    with pytest.raises(ReceiptError):
        Receipt.from_dict(state)


def test_receipt_states_version_model_and_certificate():
    certificate = {"risk": "disagreement", "level": 0.05, "groups": ["a", None]}
    receipt = lending(issuer=StubIssuer(certificate=certificate, condition=0.5)).receipt()
    state = json.loads(receipt.to_json())
    assert state["certificate"] == certificate
    assert state["condition"] == 0.5
    assert state["model"] == "ab" * 32
    assert state["format"] == 3
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_origin_is_not_part_of_the_narrative():
    narrative = lending()
    assert narrative == replace(narrative, origin=None)
    assert "origin" not in narrative.to_dict()
    read = Explanation.from_json(Explanation([narrative]).to_json())[0]
    assert read == narrative
    with pytest.raises(ValueError, match="read from a file"):
        read.receipt()


@pytest.mark.parametrize(
    ("narrative", "message"),
    [
        (lending(sampled=True), "policy='greedy'"),
        (lending(ended="open"), "still open"),
        (replace(lending(), start_stop_probability=0.6), "after the stop"),
    ],
)
def test_narratives_that_cannot_be_replayed_have_no_receipt(narrative, message):
    with pytest.raises(ValueError, match=message):
        narrative.receipt()


def changed(path, value):
    """The receipt with one field changed, and a valid digest."""
    state = json.loads(TEXT)
    part = state
    for key in path[:-1]:
        part = part[key]
    if value is KeyError:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return sign(state)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], 4, "newer suwr"),
        (["format"], True, "'format' must be 3"),
        (["extra"], 1, r"unknown fields \['extra'\]"),
        (["ended"], KeyError, r"missing fields \['ended'\]"),
        (["steps", 0, "extra"], 1, "a step has"),
        (["steps", 0, "reveals", 0, "hidden"], 1, "a reveal has"),
        (["version"], 2, "'version' must be text"),
        (["model"], "AB" * 32, "digests"),
        (["condition"], 2.0, "'condition'"),
        (["row"], 1.5, "'row'"),
        (["row"], True, "'row'"),
        (["classes"], ["one"], "'classes'"),
        (["classes"], ["one", None], "'classes'"),
        (["n_units"], 2, "more units than there are"),
        (["n_units"], 0, "'n_units'"),
        (["start"], [0.7], r"list of 2 number\(s\)"),
        (["start"], [0.7, True], "must be a number"),
        (["start"], [0.7, float("nan")], "NaN is not a finite number"),
        (["start"], [0.7, 1.3], r"\[0, 1\]"),
        (["start_stop_probability"], True, "stop probability"),
        (["start_stop_probability"], 1.5, "stop probability"),
        (["steps"], {}, "'steps' must be a list"),
        (["steps", 0], [], "a step must be an object"),
        (["steps", 0, "prediction_before"], [0.6, 0.4], "previous prediction"),
        (["steps", 0, "reveals"], [], "one or more units"),
        (["steps", 0, "reveals", 0, "columns"], ["7"], "equal lengths"),
        (["steps", 0, "reveals", 0, "columns"], ["7", "7"], "column twice"),
        (["steps", 0, "reveals", 0, "values"], [1.5, [2]], "'values'"),
        (["steps", 0, "reveals", 0, "values"], [1.5, 2**64], "64 bits"),
        (["steps", 0, "reveals", 0, "values"], [float("inf"), 2], "Infinity is not"),
        (["steps", 1, "reveals", 0, "unit"], "late", "revealed twice"),
        (["ended"], "open", "'ended'"),
        (["answer"], "paid", "'answer'"),
        (["near_ties"], [3], "'near_ties'"),
        (["near_ties"], [1, 0], "increasing"),
        (["certificate"], [], "'certificate'"),
    ],
)
def test_wrong_fields_are_refused(path, value, message):
    with pytest.raises(ReceiptError, match=message):
        Receipt.from_json(changed(path, value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "must be an object"),
        (TEXT[:-1], "invalid"),
        (TEXT + TEXT, "Extra data"),
        (TEXT.replace('"ended":', '"ended":"budget","ended":'), "a key twice"),
        (TEXT.replace("0.75", "1e999"), "1e999 is not a finite number"),
        (TEXT.replace('"values":[1.5', '"values":[1.25'), "digest does not match"),
        (TEXT.replace('"row":"A-1"', '"row":"A-2"'), "digest does not match"),
        (TEXT.encode("utf-16"), "utf-8"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format":' + "1" * 5000 + "}", "integer string"),
        (" " * (MAX_BYTES + 1), "more than 4,194,304 bytes"),
        (TEXT.replace("Öl", "\\ud800"), "surrogates"),
    ],
)
def test_texts_that_are_no_receipts_are_refused(text, message):
    with pytest.raises(ReceiptError, match=message):
        Receipt.from_json(text)


# Reasons.


def test_reasons_are_the_largest_moves_toward_the_answer():
    start = (0.5, 0.5)
    moves = [("a", 0.6), ("b", 0.4), ("c", 0.45), ("d", 0.7), ("e", 0.7)]
    steps, before = [], start
    for name, p in moves:
        after = (1 - p, p)
        steps.append(Step({name: {name: 1}}, 0.1, before, after))
        before = after
    narrative = Narrative(0, start, 0.1, tuple(steps), "decision", ("no", "yes"), 9)
    reasons = principal_reasons(narrative)
    assert [r.units for r in reasons] == [("d",), ("a",), ("c",)]
    assert [r.step for r in reasons] == [4, 1, 3]
    assert [round(r.effect, 10) for r in reasons] == [0.25, 0.1, 0.05]
    assert reasons[0].text == "d is 1 (probability of yes: 45 % → 70 %)"
    assert principal_reasons(narrative, n=1) == reasons[:1]
    (against,) = principal_reasons(narrative, against=True)
    assert (against.step, against.text) == (2, "b is 1 (probability of yes: 60 % → 40 %)")
    template = "{number}. {features} = {facts}: {effect} for {answer}"
    assert (
        principal_reasons(narrative, template=template)[1].text
        == "2. a = a is 1: +10 points for yes"
    )


def test_reasons_of_a_regression_follow_the_direction_of_the_prediction():
    steps = (
        Step({"a": {"a": 1}, "b": {"b": 2}}, 0.1, (10.0,), (4.0,)),
        Step({"c": {"c": None}}, 0.1, (4.0,), (6.0,)),
        Step({"d": {"d": 3}}, 0.9, (6.0,), (5.0,)),
    )
    narrative = Narrative(0, (10.0,), 0.1, steps, "decision", None, 9)
    reasons = principal_reasons(narrative)
    assert [(r.units, r.effect) for r in reasons] == [(("a", "b"), -6.0), (("d",), -1.0)]
    assert reasons[0].text == "a is 1; b is 2 (prediction: 10 → 4)"
    assert reasons[0].values == {"a": 1, "b": 2}
    assert principal_reasons(replace(narrative, steps=())) == ()
    assert [r.units for r in principal_reasons(narrative, against=True)] == [("c",)]


def test_reasons_of_a_receipt():
    (first, second) = RECEIPT.reasons()
    assert first.units == ("panel", "late")
    assert first.effect == 0.5
    assert second.units == ("town",)


@pytest.mark.parametrize(
    "template", ["{value}", "{facts.__class__}", "{0}", "{facts!r:>{n}}", "{", 3]
)
def test_templates_with_other_fields_are_refused(template):
    with pytest.raises(ValueError, match="The 'template' parameter of reasons must be"):
        RECEIPT.reasons(template=template)


def test_number_of_reasons_must_be_positive():
    with pytest.raises(ValueError, match="The 'n' parameter of reasons"):
        RECEIPT.reasons(n=0)
