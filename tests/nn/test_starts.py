"""Known columns, available units and budgets of rollouts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.models import NETWORKS, UNITS, make_policy
from suwr._utils.draws import RowDraws
from suwr.data.costs import Costs
from suwr.data.units import resolve_units
from suwr.estimators.limits import charge_rows
from suwr.nn.inputs import Budgets, MaskedInputs
from suwr.nn.step import Starts, training_starts

N = 12


def discount(rng, n_units):
    """Costs that fall with each acquired column."""
    prices, factors = rng.choice([0.5, 1.0, 2.0], n_units), 1 + rng.randint(0, 2, (6, n_units))
    return lambda mask: prices / (1 + mask @ factors)


def make_case(seed, groups="columns", width=1, network="separate", spend_all=False):
    """Return a policy with random costs, rows and random starts."""
    policy = make_policy(seed, UNITS[groups], units_per_step=width, network=network)
    rng = np.random.RandomState(seed)
    names = [f"x{i}" for i in range(6)]
    units = resolve_units(UNITS[groups], None, names)
    costs = rng.choice([0.0, 0.5, 1.0, 2.0], len(units))
    setups = None
    if groups != "patches" and seed % 2:
        chosen = rng.permutation(units.names).tolist()
        setups = {"a": (1.0, chosen[:2]), "b": (0.5, chosen[2:3])}
    visit = float(rng.choice([0.0, 0.5, 1.5]))
    if setups is None and seed % 3 == 0:
        costs = discount(rng, len(units))
    units = resolve_units(UNITS[groups], Costs(costs, setups, visit, of=width), names)
    policy.inputs = MaskedInputs.build(units, np.arange(6), "cpu")
    policy.units = units
    starts = Starts(
        torch.from_numpy(rng.rand(N, 6) < 0.3),
        torch.from_numpy(rng.rand(N, policy.inputs.n_units) < 0.7),
        torch.from_numpy(rng.choice([0.0, 1.0, 2.5, 4.0, np.inf], N)),
        spend_all,
    )
    if units.function is None and seed % 5 < 3:
        prices = rng.choice([0.0, 0.5, 1.0, 3.0], (N, len(units)))
        starts = replace(starts, costs=torch.from_numpy(prices))
    return policy, torch.from_numpy(rng.randn(N, 6).astype(np.float32)), starts


@torch.inference_mode()
def reference(policy, row, known, available, budget, spend_all, prices):
    """Algorithm 1 for one row in plain Python, without `Starts`."""
    columns = [set(np.flatnonzero(c).tolist()) for c in policy.inputs.membership.numpy()]
    setups, function = policy.units.setups, policy.units.function
    shown, order, spent, paid = set(known), [], 0.0, set()
    visit_cost = policy.units.visit_cost
    prices = policy.units.costs.tolist() if prices is None else prices.tolist()

    def cost(unit):
        """What a unit costs now: a set-up is paid once, and known values pay for none."""
        if function is not None:
            acquired = [[c in shown and c not in known for c in range(6)]]
            return float(np.float32(function.function(np.array(acquired))[0, unit]))
        setup = -1 if setups is None else int(setups.of_unit[unit])
        extra = 0.0 if setup < 0 or setup in paid else float(setups.costs[setup])
        return prices[unit] + extra

    def affordable(unit, first):
        """Budgets have a relative tolerance; the first unit of a step pays for the visit."""
        total = spent + cost(unit) + (visit_cost if first else 0.0)
        return total <= budget * (1 + 1e-6)

    for _ in range(policy.max_steps):
        mask = torch.tensor([[c in shown for c in range(6)]])
        decision = policy.decide(row.unsqueeze(0), mask)
        scores = decision.raw_logits[0].tolist()
        ranked = sorted(range(len(columns)), key=lambda u: -scores[u])
        useful = [u for u in ranked if available[u] and not columns[u] <= shown]
        if not any(affordable(u, True) for u in useful):
            break
        if not spend_all and float(decision.stop_probability[0]) >= 0.5:
            break
        taken = []
        # A unit may be affordable only after another one, of lower rank, has paid for their set-up.
        while len(taken) < policy.units_per_step:
            u = next((u for u in useful if u not in taken and affordable(u, not taken)), None)
            if u is None:
                break
            spent += cost(u) + (0.0 if taken else visit_cost)
            taken.append(u)
            shown = shown | columns[u]
            if setups is not None:
                paid.add(int(setups.of_unit[u]))
        order.append(taken)
    return order, shown


@given(
    seed=st.integers(0, 10**6),
    groups=st.sampled_from(sorted(UNITS)),
    width=st.integers(1, 2),
    spend_all=st.booleans(),
    network=st.sampled_from(sorted(NETWORKS)),
)
@settings(max_examples=25)
@example(seed=7164, groups="patches", width=2, spend_all=True, network="images")
@example(seed=7998, groups="groups", width=2, spend_all=False, network="conditioned images")
def test_rollouts_equal_a_reference_in_plain_python(seed, groups, width, spend_all, network):
    policy, values, starts = make_case(seed, groups, width, network, spend_all)
    trace = policy.rollout(values, starts=starts)
    for i in range(N):
        order, shown = reference(
            policy,
            values[i],
            np.flatnonzero(starts.known[i]).tolist(),
            starts.available[i].tolist(),
            float(starts.budget[i]),
            spend_all,
            None if starts.costs is None else starts.costs[i],
        )
        found = [[u for u in step if u >= 0] for step in trace.order[i].tolist()]
        assert [step for step in found if step] == order
        assert set(np.flatnonzero(trace.mask[i]).tolist()) == shown
        paid = charge_rows(policy.units, [trace.order], starts)[i]
        assert trace.cost[i] == pytest.approx(paid, rel=1e-6)
        assert trace.cost[i] <= float(starts.budget[i]) * (1 + 1e-6)


@given(
    seed=st.integers(0, 10**6),
    groups=st.sampled_from(sorted(UNITS)),
    width=st.integers(1, 2),
    sampled=st.booleans(),
    spend_all=st.booleans(),
    poison=st.sampled_from([float("nan"), 1e30, 0.0]),
)
@settings(max_examples=25)
def test_hidden_values_are_never_read(seed, groups, width, sampled, spend_all, poison):
    policy, values, starts = make_case(seed, groups, width, spend_all=spend_all)

    def roll(rows):
        draws = RowDraws.of(seed, len(rows), "rollout") if sampled else None
        return policy.rollout(rows, draws=draws, record=True, starts=starts)

    before = roll(values)
    after = roll(torch.where(torch.from_numpy(before.mask), values, torch.tensor(poison)))
    for one, two in zip(vars(before).values(), vars(after).values(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_row_is_decided_alike_in_every_batch(sampled):
    policy, values, starts = make_case(3, "groups", 2)
    draws = RowDraws.of(0, N, "rollout") if sampled else None
    whole = policy.rollout(values, draws=draws, starts=starts)
    for i in range(N):
        rows = slice(i, i + 1)
        here = draws[rows] if sampled else None
        alone = policy.rollout(values[rows], draws=here, starts=starts[rows])
        np.testing.assert_array_equal(alone.mask[0], whole.mask[i])
        assert alone.cost[0] == whole.cost[i]


def test_starts_without_limits_change_nothing():
    policy, values, _ = make_case(5)
    n_units = policy.inputs.n_units
    free = Starts(
        torch.zeros(N, 6, dtype=torch.bool),
        torch.ones(N, n_units, dtype=torch.bool),
        torch.full((N,), np.inf, dtype=torch.float64),
    )
    plain = policy.rollout(values, record=True)
    limited = policy.rollout(values, record=True, starts=free)
    for one, two in zip(vars(plain).values(), vars(limited).values(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_sums_of_rounded_costs_fit_the_budget():
    policy, values, _ = make_case(6)
    plain = {"function": None, "visit_cost": 0.0}
    policy.inputs = replace(policy.inputs, costs=torch.full((6,), 0.1), **plain)
    for k in range(7):
        starts = Starts(budget=torch.full((N,), 0.1 * k, dtype=torch.float64), spend_all=True)
        trace = policy.rollout(values, starts=starts)
        np.testing.assert_array_equal(trace.mask.sum(axis=1), k)


def test_rows_with_invalid_cells_stop():
    policy, values, _ = make_case(8)
    starts = Starts(known=torch.eye(6, dtype=torch.bool)[:1].repeat(N, 1), spend_all=True)
    values[:, 0] = float("nan")
    assert (policy.rollout(values, starts=starts).order < 0).all()


def test_budgets_of_training_are_spread_over_their_range():
    units = resolve_units(None, [1.0, 1.0, 2.0, 2.0], list("abcd"))
    inputs = MaskedInputs.build(units, np.arange(4), "cpu", budgets=Budgets(1.0, 4.0))
    budget = training_starts(inputs, torch.zeros(1000, 4)).budget
    assert budget.min() >= 1.0
    # Beyond the last unit of mean cost 1.5, budgets are the largest.
    assert (budget == 4.0).double().mean().item() == pytest.approx(1.5 / 4.5, abs=0.01)
    assert (budget < 2.5).double().mean().item() == pytest.approx(1.5 / 4.5, abs=0.01)
    other = training_starts(inputs, torch.zeros(1000, 4), turn=1).budget
    assert (budget[budget < 4] != other[budget < 4]).all()
    assert (Starts.usual(inputs, 3).budget == 4.0).all()


def test_the_position_of_a_budget_is_an_input_of_the_policy():
    units = resolve_units(None, None, list("abcd"))
    inputs = MaskedInputs.build(units, np.arange(4), "cpu", budgets=Budgets(1.0, 3.0))
    starts = Starts(budget=torch.tensor([0.5, 1.0, 2.0, 3.0, torch.inf], dtype=torch.float64))
    assert starts.condition(inputs).tolist() == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert starts.condition(replace(inputs, budgets=None)) is None
    assert Starts().condition(inputs) is None
