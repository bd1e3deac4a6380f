"""Actions of the reader of a page."""


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
