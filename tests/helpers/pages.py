"""Chromium, and pages that are read, compared with Python and attacked."""

import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise

from suwr import Explanation, Narrative
from suwr.narrative.explanation import Step

# Without most of them Chromium talks to its maker at every start.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def unavailable():
    """Why there is no browser to test with; None where there is one."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return None if shutil.which("chromium") else "there is no command 'chromium'"


@contextmanager
def chromium():
    """A browser, closed afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        yield browser
        browser.close()


def text_of(page):
    return page.locator(".words pre").text_content()


def answer(page, values):
    """Answer the current question; None is 'unknown'."""
    form = page.get_by_role("form", name="Question")
    for column, value in values.items():
        field = form.get_by_label(column, exact=True)
        if field.evaluate("f => f.tagName") == "SELECT":
            field.select_option(label="missing" if value is None else str(value))
        else:
            field.fill("" if value is None else str(value))
    form.get_by_role("button", name="Answer").click()


TOLERANCE = 1e-5

COMPUTE = """() => suwr.data.rows.map((_, i) => {
  const narrative = suwr.computedNarrative(i);
  return {
    units: narrative.steps.map((s) => s.units),
    stops: [narrative.stop, ...narrative.steps.map((s) => s.stop)],
    predictions: [narrative.start, ...narrative.steps.map((s) => s.prediction)],
    ended: narrative.ended, margin: narrative.margin,
    text: suwr.narrativeText(suwr.data, narrative),
  };
})"""


def numbers(narrative):
    states = [(narrative.start_stop_probability, narrative.start)]
    states += [(step.stop_probability, step.prediction) for step in narrative.steps]
    return [stop for stop, _ in states], [prediction for _, prediction in states]


def python_text(narrative, found):
    """Python's wording of the numbers of the page, which may round to another percentage."""
    stops, predictions = found["stops"], [tuple(p) for p in found["predictions"]]
    steps = tuple(
        replace(step, stop_probability=stop, prediction_before=before, prediction=after)
        for step, stop, (before, after) in zip(
            narrative.steps, stops[1:], pairwise(predictions), strict=True
        )
    )
    start, stop = predictions[0], stops[0]
    return replace(narrative, start=start, start_stop_probability=stop, steps=steps).text()


# Elements with the names of their attributes: strings from the data must not add or change any.
STRUCTURE = """() => [...document.querySelectorAll("*")].map((node) =>
  `${node.tagName} ${node.getAttributeNames().sort().join(" ")}`)"""

EXECUTED = """() => ["executed" in window, document.title === "executed",
  Object.keys(Object.prototype).length > 0].some(Boolean)"""

NODES = '[...document.querySelectorAll("*")]'

TAGS = f"() => [...new Set({NODES}.map((node) => node.tagName.toLowerCase()))]"

# Elements that a page may have; none of them loads anything.
ALLOWED = {
    "a", "body", "button", "circle", "details", "div", "footer", "form", "g", "h1", "h2", "h3",
    "head", "header", "html", "input", "label", "li", "line", "main", "meta", "nav", "noscript",
    "ol", "option", "p", "path", "pre", "rect", "script", "section", "select", "small",
    "span", "strong", "style", "summary", "svg", "text", "title", "ul",
}  # fmt: skip


def make_explanation(text):
    """One narrative in which ``text`` is a column, a unit, a value, a class and the row."""
    steps = (
        Step({text: {text: text}}, 0.2, (0.4, 0.6), (0.7, 0.3)),
        Step({text + "!": {"a": 1.5, text + "?": None}}, 0.8, (0.7, 0.3), (0.9, 0.1)),
    )
    return Explanation(
        [Narrative(text, (0.4, 0.6), 0.1, steps, "decision", (text, "other" + text), 5)]
    )


class Observer:
    """Opens pages and collects dialogs, requests and messages of the console.

    Parameters
    ----------
    browser : playwright Browser
    """

    def __init__(self, browser):
        self.browser = browser
        self.problems = []

    @contextmanager
    def open(self, path):
        """Open a file; ``problems`` are those of this file."""
        self.problems = []
        context = self.browser.new_context()
        page = context.new_page()
        address = path.as_uri()
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        page.on("request", lambda r: r.url == address or self.problems.append(f"request: {r.url}"))
        page.on("popup", lambda popup: self.problems.append("popup"))

        def dismiss(dialog):
            self.problems.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", dismiss)
        page.goto(address)
        try:
            yield page
        finally:
            context.close()

    def attack_page(self, path, structure, expected):
        """Return what went wrong in a page of `make_explanation`: a set, hopefully empty.

        Parameters
        ----------
        path : Path
        structure : list of str
            `STRUCTURE` of the page of a harmless string.
        expected : str
            Text of the narrative.
        """
        with self.open(path) as page:
            page.wait_for_selector("html[data-ready=true]", timeout=10_000)
            exercise(page)
            outcome = self.judge(page)
            if page.evaluate(STRUCTURE) != structure:
                outcome.add("changed the page")
            if page.locator(".words pre").text_content() != expected:
                outcome.add("changed the text")
        return outcome

    def judge(self, page):
        """Return what happened in an open page."""
        outcome = {re.split(":", problem)[0] for problem in self.problems}
        if page.evaluate(EXECUTED):
            outcome.add("executed")
        if extra := set(page.evaluate(TAGS)) - ALLOWED:
            outcome.add(f"added {', '.join(sorted(extra))}")
        return outcome


def exercise(page):
    """Use every control that shows strings from the data."""
    page.evaluate(
        """() => {
      for (const select of document.querySelectorAll("select")) {
        for (const option of select.options) {
          select.value = option.value;
          select.dispatchEvent(new Event("input", { bubbles: true }));
        }
        select.selectedIndex = 0;
        select.dispatchEvent(new Event("input", { bubbles: true }));
      }
      const search = document.querySelector("[type=search]");
      for (const text of ["<", "script", ""]) {
        search.value = text;
        search.dispatchEvent(new Event("input", { bubbles: true }));
      }
      for (const name of ["First step", "Next step", "Last step"]) {
        document.querySelector(`[aria-label="${name}"]`).click();
      }
      for (const node of document.querySelectorAll("main *")) {
        node.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
      }
    }"""
    )
