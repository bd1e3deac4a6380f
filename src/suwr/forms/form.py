"""Forms: pages that ask for one column each, and the page to go to after each answer."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from suwr._utils.validation import check_integer
from suwr.data.descriptions import Question
from suwr.forms.policy import FormPolicy, State
from suwr.forms.split import Answer, split_answers
from suwr.narrative.explanation import format_prediction

__all__ = ["Branch", "Form", "Page", "Walk", "make_form"]


class Branch(NamedTuple):
    """An answer and the number of the page that follows it.

    Attributes
    ----------
    answer : Answer
    page : int
    """

    answer: Answer
    page: int


@dataclass(frozen=True)
class Page:
    """A page of a form.

    Attributes
    ----------
    number : int
        From 1; page 1 is the first.
    column : str or None
        The column that is asked for; None for a final page.
    unit : str or None
        The unit that is acquired; None for a column that is known at the start.
    branches : tuple of Branch
    prediction : tuple of float
        From the representative answers so far.
    share : float
        Estimated share of rows that reach the page.
    complete : bool
        Whether the policy stops here; if not, the form ends because it has too many pages.
    """

    number: int
    column: str | None
    unit: str | None
    branches: tuple[Branch, ...]
    prediction: tuple[float, ...]
    share: float
    complete: bool


class Walk(NamedTuple):
    """The way of one row through a form.

    Attributes
    ----------
    asked : tuple of Page
        The pages that asked for something, in order.
    page : Page
        The page where it ends.
    """

    asked: tuple[Page, ...]
    page: Page

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were asked for, in order."""
        return tuple(page.column for page in self.asked if page.column is not None)

    @property
    def units(self) -> tuple[str, ...]:
        """The units that were asked for, in order."""
        return tuple(dict.fromkeys(page.unit for page in self.asked if page.unit is not None))


@dataclass(frozen=True)
class Form:
    """A static branching form; `make_form` creates it.

    Attributes
    ----------
    pages : tuple of Page
        In order of their numbers.
    questions : dict
        From column to `Question`.
    classes : tuple or None
        Class labels; None for regression.
    target : str
        Name of what is predicted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.forms import ModelPolicy, make_form
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> form = make_form(ModelPolicy(clf))
    >>> walk = form.walk(X.iloc[0].get)
    >>> set(walk.columns) <= set(X.columns)
    True
    """

    pages: tuple[Page, ...]
    questions: dict[str, Question]
    classes: tuple[Any, ...] | None
    target: str = "prediction"

    @property
    def n_questions(self) -> int:
        """Number of pages that ask for something."""
        return sum(page.column is not None for page in self.pages)

    def walk(self, value_of: Callable[[str], Any]) -> Walk:
        """Follow the form for one row.

        Parameters
        ----------
        value_of : callable
            From a column to its parsed value, None if it is missing. It is called only for columns
            that the form asks for.
        """
        page, asked = self.pages[0], []
        while page.column is not None:
            asked.append(page)
            value = value_of(page.column)
            following = [b.page for b in page.branches if b.answer.accepts(value)]
            if not following:
                # A missing value of a column that had none in training.
                return Walk(tuple(asked), page)
            page = self.pages[following[0] - 1]
        return Walk(tuple(asked), page)

    def result(self, page: Page) -> str:
        """Return the prediction of a page in words."""
        return format_prediction(page.prediction, self.classes)


@dataclass(order=True)
class _Draft:
    """A page under construction; those that more rows reach come first."""

    priority: float
    number: int
    known: dict[str, Any] = field(compare=False)
    pending: tuple[tuple[str, str | None], ...] = field(compare=False)
    n_steps: int = field(compare=False)
    branches: list[Branch] = field(compare=False, default_factory=list)


def make_form(policy: FormPolicy, *, max_pages: int = 50, target: str | None = None) -> Form:
    """Make a form that follows a policy.

    Numbers are divided where the next decision of the policy or its prediction changes, and after
    an answer the form continues as the policy does for a representative value. Columns that are
    known at the start are asked for first; they are no step of the policy and cost nothing. Pages
    that more rows are estimated to reach are made first, until there are ``max_pages``.

    Parameters
    ----------
    policy : FormPolicy
        For a fitted model, ``ModelPolicy(model)``.
    max_pages : int, default=50
        Maximum number of pages that ask for something; final pages are not counted.
    target : str, optional
        Name of what is predicted.

    Returns
    -------
    Form

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.forms import ModelPolicy, make_form
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> form = make_form(ModelPolicy(clf), max_pages=5)
    >>> form.n_questions <= 5
    True
    """
    check_integer(max_pages, "max_pages", "make_form", 1)
    start: tuple[tuple[str, str | None], ...] = tuple((column, None) for column in policy.start)
    if start:
        drafts = [_Draft(-1.0, 1, {}, start, -1)]
    else:
        [first] = policy.decide([{}])
        drafts = [_Draft(-1.0, 1, {}, _columns(policy, first, {}, 0), 0)]
    waiting, n_questions = [drafts[0]], 0
    while waiting and n_questions < max_pages:
        draft = heapq.heappop(waiting)
        if not draft.pending:
            continue
        n_questions += 1
        (column, _), *rest = draft.pending
        pending = [name for name, _ in rest]
        for answer, state in split_answers(policy, draft.known, column, pending):
            known = {**draft.known, column: answer.representative}
            n_steps = draft.n_steps + (not rest)
            following = tuple(rest) or _columns(policy, state, known, n_steps)
            child = _Draft(
                draft.priority * answer.share, len(drafts) + 1, known, following, n_steps
            )
            drafts.append(child)
            heapq.heappush(waiting, child)
            draft.branches.append(Branch(answer, child.number))
    predictions = [state.prediction for state in policy.decide([d.known for d in drafts])]
    pages = tuple(
        _page(draft, prediction) for draft, prediction in zip(drafts, predictions, strict=True)
    )
    return Form(pages, policy.questions, policy.classes, target or "prediction")


def _columns(
    policy: FormPolicy, state: State, known: Mapping[str, Any], n_steps: int
) -> tuple[tuple[str, str | None], ...]:
    """Return the columns that a step asks for, with their units."""
    if n_steps >= policy.max_steps:
        return ()
    asked: dict[str, str] = {}
    for number in state.units:
        unit, columns = policy.units[number]
        for column in columns:
            if column not in known:
                asked.setdefault(column, unit)
    return tuple(asked.items())


def _page(draft: _Draft, prediction: tuple[float, ...]) -> Page:
    column, unit = draft.pending[0] if draft.branches else (None, None)
    return Page(
        draft.number, column, unit, tuple(draft.branches), prediction, -draft.priority,
        not draft.pending,
    )  # fmt: skip
