"""Hostile strings in a page execute nothing and do not change its structure."""

import pytest

from helpers.pages import EXECUTED, STRUCTURE, Observer, exercise, make_explanation
from helpers.strings import hostile_strings


def pytest_generate_tests(metafunc):
    """Strings of all families: every ninth of 200, or more by the option --seeds."""
    if "text" in metafunc.fixturenames:
        strings = hostile_strings()[:: max(1, 9 // metafunc.config.getoption("seeds"))]
        metafunc.parametrize("text", [text for _, text in strings], ids=range(len(strings)))


@pytest.fixture(scope="module")
def harmless(browser, tmp_path_factory):
    """The structure of the page of a harmless string."""
    path = tmp_path_factory.mktemp("harmless") / "page.html"
    make_explanation("name").to_html(path, y=["name"])
    with Observer(browser).open(path) as page:
        exercise(page)
        return page.evaluate(STRUCTURE)


def test_strings_are_data(text, harmless, browser, tmp_path):
    path = tmp_path / "page.html"
    explanation = make_explanation(text)
    explanation.to_html(path, title=text, y=[text])
    assert Observer(browser).attack_page(path, harmless, explanation[0].text()) == set()


def test_an_attack_is_noticed(harmless, browser, tmp_path):
    path = tmp_path / "page.html"
    explanation = make_explanation("name")
    explanation.to_html(path, y=["name"])
    attack = "<img src=x onerror=1><script>window.executed=1</script>"
    path.write_text(path.read_text().replace("<footer", attack + "<footer"))
    found = Observer(browser).attack_page(path, harmless, explanation[0].text())
    # The content security policy blocks the script and the image, and reports that.
    assert found == {"console", "request", "changed the page", "added img"}
    path.write_text("<script>window.executed=1</script>")
    with Observer(browser).open(path) as page:
        assert page.evaluate(EXECUTED)
