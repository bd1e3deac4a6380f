"""The embedded model computes the same narratives as Python, in a real browser."""

import base64

import numpy as np
import pandas as pd
import pytest
import torch

from helpers import page_models
from helpers.pages import COMPUTE, TOLERANCE, numbers, python_text
from helpers.tables import mixed_table
from suwr._utils.text import format_number, percent


def same_decisions(narrative, computed, unit_number):
    units = [[unit_number[u] for u in step.units] for step in narrative.steps]
    return units == computed["units"] and narrative.ended == computed["ended"]


@pytest.mark.parametrize(
    "name",
    ["cancer", "mixed", "digits", "informed", "diabetes", "logarithmic", "transformed", "shared"],
)
def test_every_narrative_agrees_with_python(name, pages, open_page, record_property):
    path, explanation = pages(name)
    model = getattr(page_models, name)()[0]
    unit_number = {unit: i for i, unit in enumerate(model.units_.names)}
    # With a transformed target, the scale is that of the logarithm: differences are relative.
    relative = name == "transformed"
    scale = 1.0 if relative else getattr(model, "target_scale_", 1.0)
    computed = open_page(path).evaluate(COMPUTE)
    assert len(computed) == len(explanation)
    small = ("informed", "diabetes", "logarithmic", "transformed", "shared")
    assert name in small or len(computed) >= 200

    near_ties, worst = 0, 0.0
    for narrative, found in zip(explanation, computed, strict=True):
        if not same_decisions(narrative, found, unit_number):
            near_ties += 1
            assert found["margin"] < TOLERANCE, narrative.row
            continue
        stops, predictions = numbers(narrative)
        worst = max(worst, np.abs(np.subtract(stops, found["stops"])).max())
        difference = np.abs(np.subtract(predictions, found["predictions"])) / scale
        worst = max(worst, (difference / predictions if relative else difference).max())
        assert found["text"] == python_text(narrative, found)
    record_property("near_ties", near_ties)
    record_property("largest_difference", float(worst))
    assert worst < TOLERANCE
    # The comparison is meaningful only if the narratives differ.
    assert len({str(s["units"]) for s in computed}) > 2


@pytest.mark.parametrize("name", ["cancer", "digits", "informed"])
@pytest.mark.parametrize("poison", ["missing", "huge", "other rows"])
def test_page_does_not_read_hidden_values(name, poison, pages, open_page, tmp_path):
    model, X, _ = getattr(page_models, name)()
    rows = np.asarray(X, dtype=float)[:60]
    other = {"missing": np.nan, "huge": 1e30, "other rows": rows[::-1]}[poison]
    changed = np.where(model.select(X)[:60], rows, other)
    if name == "cancer":
        changed = pd.DataFrame(changed, columns=X.columns)
    path = tmp_path / "poisoned.html"
    model.explain(changed).to_html(path, model=True, hidden_values=True)
    before = open_page(pages(name)[0]).evaluate(COMPUTE)[:60]
    # Bit-identical, although the hidden values are embedded in the page.
    assert open_page(path).evaluate(COMPUTE) == before


# The stop head of a look-ahead classifier reads the uncertainty of the predictors.
@pytest.mark.parametrize(
    ("trainer", "weight"),
    [
        ("actor", 0.004),
        ("actor", 0.02),
        pytest.param("lookahead", 0.01, marks=pytest.mark.slow),
    ],
)
def test_range_model_agrees_at_the_chosen_sparsity_weight(trainer, weight, open_page, tmp_path):
    model, X, _ = page_models.ranged(trainer)
    assert model.policy_.network.architecture.informed == (trainer == "lookahead")
    explanation = model.explain(X, sparsity_weight=weight)
    path = tmp_path / "range.html"
    explanation.to_html(path, model=True)
    computed = open_page(path).evaluate(COMPUTE)
    assert np.mean([len(found["units"]) for found in computed]) > 1
    for narrative, found in zip(explanation, computed, strict=True):
        assert found["text"] == python_text(narrative, found)
        for ours, theirs in zip(
            numbers(narrative), (found["stops"], found["predictions"]), strict=True
        ):
            np.testing.assert_allclose(theirs, ours, atol=TOLERANCE)


def test_every_kind_of_layer_agrees_with_torch(pages, open_page):
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.Conv2d(3, 4, 3, 2, padding=1)
    dense = torch.nn.Linear(4 * 3 * 3 + 1, 5)
    values, mask = torch.randn(1, 30), torch.randn(1, 30)
    images = torch.cat([values, mask], dim=1).reshape(1, 2, 5, 6)
    flat = torch.nn.functional.hardswish(second(first(images))).flatten(1)
    expected = dense(torch.cat([flat, torch.tensor([[0.5]])], dim=1))[0].tolist()
    conv = {"kind": "conv", "size": 3, "padding": 1}
    layers = [
        {**conv, "image": [2, 5, 6], "n_out": 3, "stride": 1, "activation": "none"},
        {**conv, "image": [3, 5, 6], "n_out": 4, "stride": 2, "activation": "hardswish"},
        {"kind": "append", "values": [0.5]},
        {"kind": "dense", "shape": [37, 5], "activation": "none"},
    ]
    tensors = [first.weight, first.bias, second.weight, second.bias, dense.weight.T, dense.bias]
    numbers = np.concatenate([t.detach().numpy().ravel() for t in tensors])
    description = {
        "weights": base64.b64encode(numbers.tobytes()).decode(),
        "networks": [{"inputs": ["values", "mask"], "layers": layers}],
    }
    run = "([m, p]) => [...suwr.forward(suwr.unpackModel(m).networks[0], p)]"
    parts = {"values": values[0].tolist(), "mask": mask[0].tolist()}
    found = open_page(pages("shared")[0]).evaluate(run, [description, parts])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_self_check_is_reported(pages, open_page):
    path, _ = pages("mixed")
    check = open_page(path).locator("#check")
    check.filter(has_text="reproduces all 250 recorded rows").wait_for()


def test_numbers_are_formatted_as_in_python(pages, open_page, rng):
    values = rng.randn(500) * 10.0 ** rng.randint(-9, 12, 500)
    values = [*values.tolist(), 0, 1, -1, 100000, 999999.5, 1e6, 1e-4, 1e-5, 0.1, 123456, 1234567]
    # Ties are rounded to even.
    values += [123456.5, 123457.5, 12345.25, -12345.75, 100.25, 0.5, 2.5, 1e22, 5e-324, 2.0**60]
    page = open_page(pages("mixed")[0])
    for digits in (4, 6):
        shown = page.evaluate("([v, d]) => v.map((x) => suwr.significant(x, d))", [values, digits])
        assert shown == [format_number(value, digits) for value in values]
    probabilities = [*(n / 1000 for n in range(1001)), *(n / 64 for n in range(65)), 1e-9, 1 - 1e-9]
    assert page.evaluate("(v) => v.map(suwr.percent)", probabilities) == [
        percent(p) for p in probabilities
    ]


def test_self_check_of_a_single_row(mixed_model, open_page, tmp_path):
    mixed_model.explain(mixed_table()[0][:1]).to_html(tmp_path / "one.html")
    check = open_page(tmp_path / "one.html").locator("#check")
    check.filter(has_text="reproduces the recorded row;").wait_for()
