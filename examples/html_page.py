"""The example page docs/examples/breast_cancer.html, and screenshots of pages.

python examples/html_page.py               # the page only
python examples/html_page.py --pictures    # also screenshots (requires playwright and chromium)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from suwr import Explanation, Patches, SUWRClassifier

ROOT = Path(__file__).parents[1]


def breast_cancer(path: Path) -> Explanation:
    """Write the page of the test patients, with the model embedded."""
    data = load_breast_cancer(as_frame=True)
    y = data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(data.data, y, stratify=y, random_state=0)
    model = SUWRClassifier(max_steps=8, training={"hidden_size": 64}, random_state=0, verbose=1)
    model.fit(X_train, y_train)
    explanation = model.explain(X_test)
    title = "Breast cancer: every diagnosis, step by step"
    # The data are public, so complete rows may be embedded.
    explanation.to_html(path, y=y_test, title=title, hidden_values=True)
    print(f"accuracy {model.score(X_test, y_test):.3f}, {path.stat().st_size / 1000:.0f} kB")
    return explanation


def digits(path: Path) -> Explanation:
    """Write the page of handwritten digits, revealed patch by patch."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    patches = Patches((8, 8), size=2, stride=2)
    model = SUWRClassifier(groups=patches, max_steps=8, max_epochs=40, random_state=0, verbose=1)
    model.fit(X_train, y_train)
    explanation = model.explain(X_test[:100])
    explanation.to_html(path, y=y_test[:100], title="Digits, patch by patch", hidden_values=True)
    print(f"accuracy {model.score(X_test, y_test):.3f}")
    return explanation


def pictures(cancer: Path, folder: Path) -> None:
    """Take screenshots on a desktop, and on a phone in dark mode."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.pages import chromium

    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        page = browser.new_page(viewport={"width": 1180, "height": 1000})
        page.goto(cancer.as_uri())
        page.get_by_label("Sort by").select_option(label="least certain")
        page.locator("#list button").first.click()
        first = page.locator(".steps input").first
        first.fill(str(float(first.input_value()) * 0.8))
        first.press("Enter")
        page.mouse.wheel(0, -5000)
        page.wait_for_timeout(500)
        page.screenshot(path=folder / "page_desktop.png")

        path = Path(temporary) / "digits.html"
        digits(path)
        phone = {"width": 390, "height": 1150}
        page = browser.new_page(viewport=phone, color_scheme="dark", is_mobile=True)
        page.goto(path.as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=folder / "page_phone_dark.png")


if __name__ == "__main__":
    target = ROOT / "docs" / "examples" / "breast_cancer.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    breast_cancer(target)
    if "--pictures" in sys.argv:
        images = ROOT / "docs" / "images"
        images.mkdir(parents=True, exist_ok=True)
        pictures(target, images)
