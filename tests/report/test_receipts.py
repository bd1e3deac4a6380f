"""Verification of receipts in a page, in a real browser."""

import json
from random import Random

import pytest

from helpers import page_models
from helpers.receipts import ALTERATIONS, FORGERIES, chain, issued_by, mutant, sign
from suwr.estimators.verify import Verifier

VERIFY = "(texts) => Promise.all(texts.map((text) => suwr.verifyReceipt(text)))"


def verify_in(page, texts):
    results = page.evaluate(VERIFY, texts)
    return [(r["verified"], r["step"]) for r in results]


@pytest.mark.parametrize("name", ["mixed", "diabetes", "digits"])
def test_page_and_python_agree_on_genuine_and_forged_receipts(pages, open_page, name):
    path, explanation = pages(name)
    model = getattr(page_models, name)()[0]
    page = open_page(path)
    texts = [n.receipt().to_json() for n in explanation[:40]]
    assert verify_in(page, texts) == [(True, None)] * len(texts)
    forged = [
        text if isinstance(text, str) else text.decode(errors="replace")
        for family in [*FORGERIES, *ALTERATIONS]
        for number in range(6)
        if (text := mutant(family, texts, number, Random(f"{family} {number}"))) is not None
    ]
    results = verify_in(page, forged)
    python = Verifier(model).verify(forged)
    # Numbers that differ by less than the tolerance are equal in a page, as on another platform.
    for text, (verified, step), found in zip(forged, results, python, strict=True):
        if verified:
            other = sign(json.loads(text) | {"environment": "browser"})
            assert Verifier(model).verify([other])[0] or issued_by(model, text), text
        elif step is not None and found.step is not None:
            assert step >= found.step
    assert sum(not verified for verified, _ in results) > 0.9 * len(results)


def test_chosen_and_dropped_files(pages, open_page, tmp_path):
    path, explanation = pages("mixed")
    page = open_page(path)
    panel = page.locator("#verification")
    assert panel.is_hidden()
    receipt = next(n for n in explanation if n.steps).receipt()
    file = tmp_path / "receipt.json"
    file.write_text(receipt.to_json() + "\n")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Verify a receipt").click()
    chooser.value.set_files(file)
    heading = panel.locator("h2")
    heading.filter(has_text="Verified").wait_for()
    assert heading.text_content() == "✓ Verified: receipt.json"
    assert panel.locator("pre").text_content() == receipt.narrative.text()
    panel.get_by_role("button", name="Close").click()
    assert panel.is_hidden()

    # A dropped file: a forged receipt among genuine ones.
    lines = [n.receipt().to_json() for n in explanation[:3]]
    forged = json.loads(receipt.to_json())
    forged["steps"][0]["stop_probability"] = 0.25
    lines.insert(1, sign(chain(forged)))
    data = page.evaluate_handle(
        """(text) => { const data = new DataTransfer();
           data.items.add(new File([text], "many.jsonl")); return data; }""",
        "\n".join(lines) + "\n",
    )
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    heading.filter(has_text="Not verified").wait_for()
    assert "3 of 4 receipts are verified." in panel.text_content()
    assert "Line 2: differs at step 1: the stop probability" in panel.text_content()


def test_texts_that_are_no_receipts_of_the_page(pages, open_page):
    page = open_page(pages("mixed")[0])
    other = pages("diabetes")[1][0].receipt().to_json()
    own = pages("mixed")[1][0].receipt().to_json()
    cases = {
        other: "another model",
        "": "not JSON",
        "[1]": "missing or unknown fields",
        own.replace('"row":0', '"row":1'): "digest does not match",
        own.replace('"ended":', '"ended":"budget","ended":'): "key twice",
        " " * (4 * 2**20) + own: "too long",
    }
    # The digest is that of the content.
    assert verify_in(page, [json.dumps(json.loads(own), indent=1)]) == [(True, None)]
    found = page.evaluate(VERIFY, list(cases))
    for result, expected in zip(found, cases.values(), strict=True):
        assert not result["verified"]
        assert expected in result["reason"]


def test_results_fit_a_phone(pages, open_page, tmp_path):
    path, explanation = pages("mixed")
    page = open_page(path, viewport={"width": 390, "height": 800})
    file = tmp_path / f"{'a-long-name-' * 8}.json"
    file.write_text(explanation[0].receipt().to_json())
    page.locator("#receipts").set_input_files(file)
    panel = page.locator("#verification")
    panel.locator("h2.verified").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    box = panel.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_pages_without_the_model_do_not_offer_verification(open_page, tmp_path):
    model, X, _ = page_models.mixed()
    path = tmp_path / "page.html"
    model.explain(X[:2]).to_html(path, model=False)
    assert open_page(path).locator("#verify").is_hidden()
