"""Chromium for the tests of the page, which fail on any network request or console message."""

import pytest

from helpers import page_models


@pytest.fixture
def open_page(browser):
    """Open a file; fail at teardown if there was an error, a dialog or a request."""
    contexts, problems = [], []

    def open_file(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        address = path.as_uri()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on(
            "request", lambda r: None if r.url == address else problems.append(f"request: {r.url}")
        )
        page.goto(address)
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of the models in `page_models`, with complete rows, written on first use."""
    folder, written = tmp_path_factory.mktemp("pages"), {}

    def page(name):
        if name not in written:
            model, X, y = getattr(page_models, name)()
            explanation = model.explain(X)
            written[name] = (folder / f"{name}.html", explanation)
            path, title = written[name][0], f"{name} <script>"
            explanation.to_html(path, y=y, title=title, hidden_values=True)
        return written[name]

    return page
