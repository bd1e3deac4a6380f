"""Static branching forms: decision trees over questions that follow a policy on paper."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import format_exactly, format_value
from suwr._utils.validation import check_integer
from suwr.data.encode import ColumnCode
from suwr.data.frame import Table, object_column
from suwr.estimators.base import SUWRModel
from suwr.estimators.limits import check_plain_costs
from suwr.estimators.targets import ValueTarget
from suwr.narrative.explanation import format_prediction


class State(NamedTuple):
    """What a policy decides after some answers.

    Attributes
    ----------
    units : tuple of int
        The units that it asks for next; empty if it stops.
    prediction : tuple of float
        Class probabilities, or one value.
    """

    units: tuple[int, ...]
    prediction: tuple[float, ...]


class FormPolicy(Protocol):
    """A deterministic policy over named columns.

    Attributes
    ----------
    codes : dict
        From column to its encoding, which lists categories and training values, in their order.
    units : sequence of (str, tuple of str)
        Names and columns of the units.
    start : sequence of str
        Columns that are known at the start of every row: the form asks for them first.
    classes : tuple or None
        Class labels; None for regression.
    max_steps : int
        Steps after which the policy stops.
    resolution : float
        Values within this distance of each other count as the same prediction of a regression.
    """

    codes: dict[str, ColumnCode]
    units: Sequence[tuple[str, tuple[str, ...]]]
    start: Sequence[str]
    classes: tuple[Any, ...] | None
    max_steps: int
    resolution: float

    def decide(self, answers: Sequence[Mapping[str, Any]]) -> list[State]:
        """Return the state after each set of answers, given by column."""
        ...


class ModelPolicy:
    """The greedy policy of a fitted model, as a `FormPolicy`.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    mean_features : float, optional
        As in ``select``, for a model that was fitted for a range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy import ModelPolicy
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> policy = ModelPolicy(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> len(policy.decide([{}])[0].prediction)
    3
    """

    def __init__(self, model: SUWRModel, mean_features: float | None = None) -> None:
        self.model = model
        self._fitted = model.fitted_policy(mean_features=mean_features)
        check_plain_costs(self._fitted.policy, model.units_)
        names, codes = model.encoder_.names, model.encoder_.codes
        if model.encoder_.unrecorded:
            # A value that was asked for may turn out to be missing.
            codes = [replace(code, has_missing=True) for code in codes]
        self.codes = dict(zip(names, codes, strict=True))
        self.units: Sequence[tuple[str, tuple[str, ...]]] = [
            (name, tuple(names[c] for c in model.units_.columns_of(number)))
            for number, name in enumerate(model.units_.names)
        ]
        self.start: Sequence[str] = self._fitted.always_known
        self.classes = model.target_.labels
        self.max_steps = self._fitted.policy.max_steps
        # Half the scale of the target, which is that of the transformed values.
        quarter = np.array([[-0.25], [0.25]], dtype=np.float32)
        low, high = model.target_.shown(quarter)[:, 0]
        self.resolution = float(high - low)

    def decide(self, answers: Sequence[Mapping[str, Any]]) -> list[State]:
        """See `FormPolicy`."""
        names = self.model.encoder_.names
        columns = [object_column([known.get(name) for known in answers]) for name in names]
        table = self.model.encoder_.parse(columns)
        masks = np.array([[name in known for name in names] for known in answers])
        found = self._fitted.decide(table, masks)
        states = []
        for number in range(len(answers)):
            stops = found.stop_probability[number] >= 0.5
            units = () if stops else tuple(int(u) for u in found.units[number] if u >= 0)
            states.append(State(units, tuple(found.prediction[number].tolist())))
        return states


# Up to this many categories, or distinct numbers, each is an answer of its own.
MAX_CATEGORIES, MAX_NUMBERS = 8, 4
# Predictions above and below this probability are distinguished.
CONFIDENT = 0.9
# Numbers between two quantiles at which a change of decision is located.
N_REFINED = 32
# Assumed shares of answers that are not available, and of unknown categories.
MISSING_SHARE, OTHER_SHARE = 0.05, 0.01
# A text that is no category of any model.
OTHER = "\ufdd0 another value"


@dataclass(frozen=True)
class Answer:
    """A set of values of one column that a form treats alike.

    Attributes
    ----------
    representative : object
        The value by which the form continues.
    share : float
        Estimated share of rows with such a value.
    low, high : float or None
        Bounds of numbers: low < x ≤ high; None is unbounded.
    values : tuple or None
        The categories; None for numbers.
    missing, other : bool
        Whether it is the answer 'not available', or any other category.
    whole : bool
        Whether the numbers are integers.
    """

    representative: Any
    share: float
    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] | None = None
    missing: bool = False
    other: bool = False
    whole: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a parsed value belongs to this answer; 'other' accepts any category."""
        if value is None or self.missing:
            return value is None and self.missing
        if self.other:
            return True
        if self.values is not None:
            return value in self.values
        above = self.low is None or value > self.low
        return above and (self.high is None or value <= self.high)

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.missing:
            return "not available"
        if self.other:
            return "another value"
        if self.values is not None:
            return " or ".join(value_text(v) for v in self.values)
        low, high = self.low, self.high
        if self.whole:
            first = None if low is None else math.floor(low) + 1
            last = None if high is None else math.floor(high)
            if first is not None and first == last:
                return format_exactly(first)
            return _interval(first, last, "at least {}", "at most {}")
        return _interval(low, high, "more than {}", "at most {}")


def value_text(value: Any) -> str:
    """Return a category in words, so that no two numbers look the same."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return format_exactly(value) if number else format_value(value)


def _interval(low: float | None, high: float | None, above: str, below: str) -> str:
    parts = [] if low is None else [above.format(format_exactly(low))]
    parts += [] if high is None else [below.format(format_exactly(high))]
    return " and ".join(parts) or "any number"


def split_answers(
    policy: FormPolicy, known: Mapping[str, Any], column: str, pending: Sequence[str]
) -> list[tuple[Answer, State]]:
    """Divide the values of a column.

    Parameters
    ----------
    policy : FormPolicy
    known : mapping
        The representative answers so far.
    column : str
        The column that is asked for.
    pending : sequence of str
        Columns of the same step that are asked for after it. The policy decides after all of them;
        they are assumed to have typical values.

    Returns
    -------
    list of (Answer, State)
        With the state after the representative, and typical values of ``pending``.
    """
    code = policy.codes[column]
    rest = {name: typical_value(policy.codes[name]) for name in pending}

    def states(values: Sequence[Any]) -> list[State]:
        return policy.decide([{**known, column: value, **rest} for value in values])

    split = _split_numbers if code.categories is None else _split_categories
    found = split(policy, column, states)
    if code.has_missing:
        [state] = states([None])
        found.append((Answer(None, MISSING_SHARE, missing=True), state))
    return found


def typical_value(code: ColumnCode) -> Any:
    """Return the centre of a number, or the first category."""
    if code.categories is None:
        return code.center
    return code.categories[0] if code.categories else None


def _signature(policy: FormPolicy, state: State) -> tuple[Any, ...]:
    """Return what numbers of one answer have in common: the next decision, and the prediction.

    Without the prediction, an answer that changes it but not the next question would be lost.
    """
    if policy.classes is None:
        return state.units, math.floor(state.prediction[0] / policy.resolution)
    best = int(np.argmax(state.prediction))
    return state.units, best, state.prediction[best] > CONFIDENT


def _split_categories(policy: FormPolicy, column: str, states: Any) -> list[tuple[Answer, State]]:
    code = policy.codes[column]
    categories = list(code.categories or ())
    groups: dict[Any, list[Any]] = {}
    reached = dict(zip(categories, states(categories), strict=True)) if categories else {}
    few = len(categories) <= MAX_CATEGORIES
    for category in categories:
        key = category if few else _signature(policy, reached[category])
        groups.setdefault(key, []).append(category)
    found = [
        (Answer(group[0], len(group) / len(categories), values=tuple(group)), reached[group[0]])
        for group in groups.values()
    ]
    if code.type == "text":
        [state] = states([OTHER])
        found.append((Answer(OTHER, OTHER_SHARE, other=True), state))
    return found


def _split_numbers(policy: FormPolicy, column: str, states: Any) -> list[tuple[Answer, State]]:
    code = policy.codes[column]
    grid, weights = _grid(code)
    reached = states(grid)
    signatures = [_signature(policy, state) for state in reached]
    whole, discrete = code.whole, code.values is not None
    if discrete and len(grid) <= MAX_NUMBERS:
        places = list(range(1, len(grid)))
    else:
        places = [i for i in range(1, len(grid)) if signatures[i] != signatures[i - 1]]
    # Only numbers that occur matter in a discrete column.
    gaps = [(grid[i - 1], grid[i]) for i in places]
    if not discrete:
        gaps = _narrow(policy, gaps, [signatures[i - 1] for i in places], states)
    bounds = [_between(low, high, whole, discrete) for low, high in gaps]
    found = []
    edges = [None, *bounds, None]
    for (start, stop), low, high in zip(
        pairwise([0, *places, len(grid)]), edges[:-1], edges[1:], strict=True
    ):
        middle = (start + stop - 1) // 2
        share = float(sum(weights[start:stop]))
        found.append((Answer(grid[middle], share, low, high, whole=whole), reached[middle]))
    return found


def _grid(code: ColumnCode) -> tuple[list[float], list[float]]:
    """Return increasing numbers with the shares of rows that they stand for."""
    if code.summary is None:
        grid = [code.center + code.scale * step for step in np.linspace(-3, 3, 21)]
        return grid, [1 / len(grid)] * len(grid)
    values, counts = np.unique(code.summary.quantiles, return_counts=True)
    if code.summary.values is not None:
        # Rare values may lie between two quantiles.
        shares = dict(zip(values.tolist(), counts.tolist(), strict=True))
        grid = [float(v) for v in code.summary.values]
        numbers = [shares.get(v, 0.5) for v in grid]
        return grid, [n / sum(numbers) for n in numbers]
    return values.tolist(), (counts / counts.sum()).tolist()


def _narrow(
    policy: FormPolicy, gaps: list[tuple[float, float]], before: list[Any], states: Any
) -> list[tuple[float, float]]:
    """Narrow gaps to the first change of decision in them; ``before`` are those at their start."""
    tried = [np.linspace(low, high, N_REFINED + 2)[1:-1].tolist() for low, high in gaps]
    reached = states([value for values in tried for value in values]) if gaps else []
    narrowed = []
    for number, (low, high) in enumerate(gaps):
        part = reached[number * N_REFINED : (number + 1) * N_REFINED]
        for value, state in zip(tried[number], part, strict=True):
            if _signature(policy, state) != before[number]:
                high = value
                break
            low = value
        narrowed.append((low, high))
    return narrowed


def _between(low: float, high: float, whole: bool, discrete: bool) -> float:
    """Return the bound between two numbers that are treated differently."""
    if not whole:
        return _short(low, high)
    return math.floor((low + high - 1) / 2 if discrete else low) + 0.5


def _short(low: float, high: float) -> float:
    """Return the shortest decimal number between two numbers: low ≤ x < high.

    Examples
    --------
    >>> _short(0.1234, 0.1301), _short(17.0, 23.0)
    (0.13, 20.0)
    """
    middle = (low + high) / 2
    for digits in range(1, 17):
        number = float(f"{middle:.{digits}g}")
        if low <= number < high:
            return number
    return low


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
    codes : dict
        From column to its encoding.
    classes : tuple or None
        Class labels; None for regression.
    target : str
        Name of what is predicted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy import ModelPolicy, make_form
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> form = make_form(ModelPolicy(clf))
    >>> walk = form.walk(X.iloc[0].get)
    >>> set(walk.columns) <= set(X.columns)
    True
    """

    pages: tuple[Page, ...]
    codes: dict[str, ColumnCode]
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
    >>> from suwr.deploy import ModelPolicy, make_form
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
    return Form(pages, policy.codes, policy.classes, target or "prediction")


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
    share, complete = -draft.priority, not draft.pending
    return Page(draft.number, column, unit, tuple(draft.branches), prediction, share, complete)


@dataclass(frozen=True)
class Regret:
    """A form beside its policy on the same rows.

    Attributes
    ----------
    n_rows : int
    disagreement : float
        Share of rows with another predicted class; of a regression, the root mean squared
        difference between the predictions.
    form_cost, policy_cost : float
        Mean cost ‖h‖ of the revealed units.
    form_loss, policy_loss : float or None
        Mean cross-entropy in nats, or ``loss`` of the regressor; None without targets.
    regret : float or None
        Difference of the objectives, loss + λ cost; None without targets.
    standard_error : float or None
        Of the regret.

    Examples
    --------
    >>> from suwr.deploy import Regret
    >>> print(Regret(100, 0.02, 3.5, 3.1))
    100 rows: another prediction than the policy for 2.0 %, mean cost 3.5 instead of 3.1
    """

    n_rows: int
    disagreement: float
    form_cost: float
    policy_cost: float
    form_loss: float | None = None
    policy_loss: float | None = None
    regret: float | None = None
    standard_error: float | None = None
    is_regression: bool = False

    def excess(self, model: SUWRModel) -> float:
        """Return by how much the form is worse than the policy, relative to the policy.

        In the objective, loss + λ cost. Without targets, the disagreement, which of a regression
        is relative to the scale of the target.
        """
        if self.regret is None or self.policy_loss is None:
            target = model.target_
            return self.disagreement / (target.scale if isinstance(target, ValueTarget) else 1.0)
        objective = self.policy_loss + model.sparsity_weight_ * self.policy_cost
        return self.regret / objective if objective > 0 else 0.0

    def __str__(self) -> str:
        differs = (
            f"predictions differ by {self.disagreement:.3g} (root mean square)"
            if self.is_regression
            else f"another prediction than the policy for {100 * self.disagreement:.1f} %"
        )
        text = (
            f"{self.n_rows} rows: {differs}, mean cost {self.form_cost:.3g} instead of "
            f"{self.policy_cost:.3g}"
        )
        if self.regret is None:
            return text
        return (
            f"{text}, loss {self.form_loss:.4g} instead of {self.policy_loss:.4g}; regret "
            f"{self.regret:.4g} ± {self.standard_error:.2g} (standard error)"
        )


# Numbers of questions that `choose_form` tries, and the one that fits on about two pages.
SIZES, TWO_PAGES = (4, 7, 12, 20, 33, 50), 12
# Largest `Regret.excess` of the form that is chosen.
MOST_EXCESS = 0.02


def choose_form(
    model: SUWRModel,
    X: Any,
    y: Any = None,
    *,
    mean_features: float | None = None,
    target: str | None = None,
) -> tuple[Form, Regret]:
    """Make the smallest form that is at most 2 % worse than the policy on rows.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    X, y, mean_features
        As in `measure_regret`.
    target : str, optional
        As in `make_form`.

    Returns
    -------
    form : Form
        That of 50 questions if none is so good.
    regret : Regret
    """
    policy = ModelPolicy(model, mean_features)
    for size in SIZES:
        form = make_form(policy, max_pages=size, target=target)
        regret = measure_regret(form, model, X, y, mean_features=mean_features)
        if form.n_questions < size or regret.excess(model) <= MOST_EXCESS:
            break
    return form, regret


def walk_rows(form: Form, model: SUWRModel, table: Table) -> list[Walk]:
    """Return the way of each row; cells that the form does not ask for are not read.

    Parameters
    ----------
    form : Form
    model : estimator
        Fitted.
    table : Table
        Parsed by the encoder of the model.
    """
    number = {name: i for i, name in enumerate(model.encoder_.names)}

    def reader(row: int) -> Any:
        def value_of(name: str) -> Any:
            cells = table.invalid.get(number[name])
            if cells is not None and cells[row] is not None:
                raise cells[row].error(True)
            return table.value(row, number[name])

        return value_of

    return [form.walk(reader(row)) for row in range(table.n_rows)]


def measure_regret(
    form: Form, model: SUWRModel, X: Any, y: Any = None, *, mean_features: float | None = None
) -> Regret:
    """Compare a form with the policy of the model on rows.

    Parameters
    ----------
    form : Form
        Made from the model.
    model : SUWRClassifier or SUWRRegressor
    X : array-like or data frame of shape (n, d)
        Rows that the model was not trained on.
    y : array-like of shape (n,), optional
        Targets, for losses and regret.
    mean_features : float, optional
        As in ``ModelPolicy``.

    Returns
    -------
    Regret

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy import ModelPolicy, make_form, measure_regret
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> measure_regret(make_form(ModelPolicy(clf)), clf, X, y).n_rows
    150
    """
    walks = walk_rows(form, model, model.fitted_policy().read(X))
    explanation = model.explain(X, mean_features=mean_features)
    ours = np.array([walk.page.prediction for walk in walks])
    theirs = np.array([narrative.prediction for narrative in explanation])
    form_cost = _costs(model, [walk.units for walk in walks])
    policy_cost = _costs(model, [[u for step in n.steps for u in step.units] for n in explanation])
    regression = form.classes is None
    if regression:
        disagreement = float(np.sqrt(np.mean((ours[:, 0] - theirs[:, 0]) ** 2)))
    else:
        disagreement = float(np.mean(ours.argmax(axis=1) != theirs.argmax(axis=1)))
    means = (float(form_cost.mean()), float(policy_cost.mean()))
    if y is None:
        return Regret(len(ours), disagreement, *means, is_regression=regression)
    truth = model.target_.read(y, len(ours))
    losses = [model.target_.row_losses(truth, prediction) for prediction in (ours, theirs)]
    difference = losses[0] - losses[1] + model.sparsity_weight_ * (form_cost - policy_cost)
    error = float(difference.std() / np.sqrt(len(difference)))
    measured = (float(losses[0].mean()), float(losses[1].mean()), float(difference.mean()), error)
    return Regret(len(ours), disagreement, *means, *measured, regression)


def _costs(model: SUWRModel, acquired: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return the cost of the units that each row acquired, set-up costs included."""
    order = np.full((len(acquired), max(map(len, acquired), default=0)), -1, dtype=np.intp)
    for row, names in enumerate(acquired):
        order[row, : len(names)] = [model.units_.names.index(name) for name in names]
    return model.units_.cost_of(order)
