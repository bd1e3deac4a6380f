"""Seeded mutants of receipts: forgeries with a valid digest, and texts that are not receipts."""

import hashlib
import json
from functools import cache

import numpy as np
import pandas as pd

from suwr.narrative.reading import canonical_json


def sign(state):
    """The text of a receipt with the digest of its content, as anyone can compute it."""
    body = {k: v for k, v in state.items() if k != "sha256"}
    try:
        digest = hashlib.sha256(canonical_json(body).encode()).hexdigest()
    except ValueError:  # neither NaN nor lone surrogates have a canonical form
        digest = "0" * 64
    return json.dumps(body | {"sha256": digest})


def chain(state):
    """Make every 'prediction_before' the previous prediction, and the answer that of the last."""
    before = state["start"]
    for step in state["steps"]:
        step["prediction_before"] = before
        before = step["prediction"]
    classes = state["classes"]
    state["answer"] = before[0] if classes is None else classes[before.index(max(before))]
    state["near_ties"] = [i for i in state["near_ties"] if i <= len(state["steps"])]
    return state


def _number(value, rng):
    """Another number, from slightly to entirely different."""
    shift = rng.choice([1e-3, 0.01, 0.1, 1.0, 10.0]) * rng.choice([-1, 1])
    changed = value + shift * (abs(value) or 1.0) * (1 + rng.random())
    whole = float(changed).is_integer() and abs(changed) < 2**53
    return int(changed) if whole else float(changed)


def _probability(p, rng):
    return rng.choice([rng.random(), min(1.0, p + 1e-7), p / 2, 1 - p / 2, 0.5])


# Forgeries: functions of a receipt, other receipts of the model and a random generator. They return
# None where they do not apply.


def change_value(state, others, rng):
    reveals = [r for step in state["steps"] for r in step["reveals"]]
    if not reveals:
        return None
    reveal = rng.choice(reveals)
    place = rng.randrange(len(reveal["values"]))
    old = reveal["values"][place]
    seen = [
        value
        for other in others
        for step in other["steps"]
        for r in step["reveals"]
        for name, value in zip(r["columns"], r["values"], strict=True)
        if name == reveal["columns"][place] and value != old
    ]
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int | float) and rng.random() < 0.7:
        new = _number(old, rng)
    else:
        new = rng.choice([None, *seen])
    for r in reveals:  # overlapping units must agree
        for i, name in enumerate(r["columns"]):
            if name == reveal["columns"][place]:
                r["values"][i] = new
    return state


def change_order(state, others, rng):
    steps = state["steps"]
    if len(steps) < 2:
        return None
    i, j = rng.sample(range(len(steps)), 2)
    if rng.random() < 0.5:
        steps[i], steps[j] = steps[j], steps[i]
    else:
        steps[i]["reveals"], steps[j]["reveals"] = steps[j]["reveals"], steps[i]["reveals"]
    return chain(state)


def change_digest(state, others, rng):
    place = rng.randrange(64)
    digit = rng.choice([d for d in "0123456789abcdef" if d != state["model"][place]])
    state["model"] = state["model"][:place] + digit + state["model"][place + 1 :]
    return state


def change_stop(state, others, rng):
    place = rng.randrange(-1, len(state["steps"]))
    part = state if place < 0 else state["steps"][place]
    name = "start_stop_probability" if place < 0 else "stop_probability"
    part[name] = float(_probability(part[name], rng))
    return state


def change_prediction(state, others, rng):
    place = rng.randrange(-1, len(state["steps"]))
    part, name = (state, "start") if place < 0 else (state["steps"][place], "prediction")
    numbers = list(part[name])
    i = rng.randrange(len(numbers))
    if state["classes"] is None:
        numbers[i] = float(_number(numbers[i], rng))
    else:
        numbers[i] = float(_probability(numbers[i], rng))
        if rng.random() < 0.5:
            rng.shuffle(numbers)
    part[name] = numbers
    return chain(state)


def leave_out_a_step(state, others, rng):
    if not state["steps"]:
        return None
    del state["steps"][rng.randrange(len(state["steps"]))]
    return chain(state)


def add_a_step(state, others, rng):
    used = {r["unit"] for step in state["steps"] for r in step["reveals"]}
    found = [
        step
        for other in others
        for step in other["steps"]
        if used.isdisjoint(r["unit"] for r in step["reveals"])
    ]
    if not found:
        return None
    step = json.loads(json.dumps(rng.choice(found)))
    place = rng.randrange(len(state["steps"]) + 1)
    if rng.random() < 0.5:  # without an effect
        step["prediction"] = state["steps"][place - 1]["prediction"] if place else state["start"]
    state["steps"].insert(place, step)
    return chain(state)


def change_unit(state, others, rng):
    reveals = [r for step in state["steps"] for r in step["reveals"]]
    if not reveals:
        return None
    reveal, used = rng.choice(reveals), {r["unit"] for r in reveals}
    found = [
        r
        for other in others
        for step in other["steps"]
        for r in step["reveals"]
        if r["unit"] not in used
    ]
    if not found:
        return None
    reveal.update(json.loads(json.dumps(rng.choice(found))))
    return state


def change_ending(state, others, rng):
    kinds = ["decision", "budget", "everything"]
    state["ended"] = rng.choice([k for k in kinds if k != state["ended"]])
    return state


def splice_receipts(state, others, rng):
    other = rng.choice(others)
    cut = rng.randrange(len(state["steps"]) + 1)
    steps = state["steps"][:cut] + json.loads(json.dumps(other["steps"][cut:]))
    if steps == state["steps"]:
        return None
    state["steps"] = steps
    return chain(state)


def change_claim(state, others, rng):
    """Facts about the model and the near ties."""
    kind = rng.choice(["n_units", "classes", "near_ties", "certificate", "condition"])
    if kind == "n_units":
        state["n_units"] += rng.randrange(1, 4)
    elif kind == "classes" and state["classes"] is not None:
        state["classes"] = state["classes"][::-1]
        chain(state)
    elif kind == "certificate":
        state["certificate"] = {"risk": "disagreement", "level": 0.05}
    elif kind == "condition":
        state["condition"] = rng.uniform(-1, 1) if state["condition"] is None else None
    else:
        state["near_ties"] = [] if state["near_ties"] else [rng.randrange(len(state["steps"]) + 1)]
    return state


FORGERIES = {
    "a value changed": change_value,
    "the order changed": change_order,
    "the model's digest changed": change_digest,
    "a stop probability changed": change_stop,
    "a prediction changed": change_prediction,
    "a step left out": leave_out_a_step,
    "a step added": add_a_step,
    "a unit replaced": change_unit,
    "the ending changed": change_ending,
    "steps of another receipt": splice_receipts,
    "facts about the model changed": change_claim,
}


# Alterations of the text.


def flip_bits(text, rng):
    data = bytearray(text.encode())
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut_text(text, rng):
    i, j = sorted(rng.sample(range(len(text)), 2))
    return rng.choice([text[:i], text[:i] + text[j:], text + text[i:j], ""])


def repeat_key(text, rng):
    names = ["model", "ended", "answer", "row", "stop_probability", "sha256", "unit"]
    found = [name for name in names if f'"{name}":' in text]
    name = rng.choice(found)
    return text.replace(f'"{name}":', f'"{name}":null,"{name}":', 1)


def change_unreplayed_field(text, rng):
    """Fields that no replay can compute, which only the digest protects."""
    state = json.loads(text)
    kind = rng.choice(["row", "version", "environment"])
    state[kind] = rng.choice(["x", "0.1.0", "another", -1, None])
    return json.dumps(state)


def change_structure(text, rng):
    """Unknown and missing fields, other types, NaN, nesting; with a valid digest."""
    state = json.loads(text)
    parts = [state, *state["steps"], *(r for s in state["steps"] for r in s["reveals"])]
    part = rng.choice(parts)
    name = rng.choice(sorted(part.keys() - {"sha256"}))
    # No replay can compute these fields, but their types are fixed.
    kind = rng.randrange(4 if name in ("row", "version", "environment") else 5)
    if kind == 0:
        part[f"{name} "] = part[name]
    elif kind == 1:
        del part[name]
    elif kind == 2:
        part[name] = float(rng.choice(["nan", "inf", "-inf"]))
    elif kind == 3:
        part[name] = [part[name]]
    else:
        other = [None, True, -1, 0.5, "x", {}, [], 10**400, "\ud800", part[name]]
        part[name] = rng.choice([v for v in other if v is not part[name]])
        if part[name] is None and name in ("condition", "certificate", "classes"):
            part[name] = 7
    return sign(state)


def nest(text, rng):
    depth = rng.choice([10, 1_000, 100_000])
    return text.replace('"certificate":null', f'"certificate":{"[" * depth}{"]" * depth}')


ALTERATIONS = {
    "bits flipped": flip_bits,
    "text cut or repeated": cut_text,
    "a key twice": repeat_key,
    "row, version or environment changed": change_unreplayed_field,
    "fields added, missing or of another type": change_structure,
    "nested values": nest,
}


def content(text):
    """What a receipt says, except for the label of its row."""
    return canonical_json({k: v for k, v in json.loads(text).items() if k not in ("row", "sha256")})


@cache
def _contents(texts):
    return frozenset(map(content, texts))


def mutant(family, texts, number, rng):
    """Return a mutant of one of the receipts; None if it would be a genuine receipt."""
    text = texts[number % len(texts)]
    if family in ALTERATIONS:
        changed = ALTERATIONS[family](text, rng)
    else:
        others = [json.loads(texts[rng.randrange(len(texts))]) for _ in range(4)]
        state = FORGERIES[family](json.loads(text), others, rng)
        changed = None if state is None else sign(state)
        if changed is not None and content(changed) in _contents(tuple(texts)):
            return None
    return None if changed in (text, text.encode()) else changed


def issued_by(model, text):
    """Whether the model itself issues this receipt for a row with these values.

    Such a mutant is not a forgery. It arises where a model cannot distinguish two values, such as
    the median and a missing value of a column that had no missing values in ``fit``.
    """
    values = {
        name: value
        for step in json.loads(text)["steps"]
        for reveal in step["reveals"]
        for name, value in zip(reveal["columns"], reveal["values"], strict=True)
    }
    row = np.array([[values.get(name, "hidden") for name in model.encoder_.names]], dtype=object)
    X = (
        pd.DataFrame(row, columns=model.encoder_.names)
        if hasattr(model, "feature_names_in_")
        else row
    )
    return content(model.explain(X)[0].receipt().to_json()) == content(text)
