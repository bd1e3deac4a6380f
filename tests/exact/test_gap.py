"""Exact evaluation of fitted models."""

import numpy as np
import pandas as pd
import pytest

from suwr.exact import FiniteProblem, cube, five_blocks, gap, leaky_pair, solve, toy_problem


class Half:
    """Reveals x1 only or everything, with probability 1/2 each, and predicts inaccurately."""

    classes_ = np.array(["yes", "no"])

    def __init__(self, classifier=False):
        self.classifier = classifier

    def mask_probability(self, X, masks):
        masks = np.asarray(masks)
        first = masks[..., 0] & ~masks[..., 1:].any(axis=-1)
        result = 0.5 * first + 0.5 * masks.all(axis=-1)
        return np.broadcast_to(result, (len(X), *result.shape[1:])) if masks.ndim == 3 else result

    def predict_masked(self, X, masks):
        value = np.where(np.asarray(masks).all(axis=1), 1.0, np.asarray(X)[:, 0])
        if not self.classifier:
            return value
        return np.column_stack([0.6 + 0.2 * value, 0.4 - 0.2 * value])


def test_regressor_by_hand():
    problem = FiniteProblem(cube(2), [0, 0, 0, 4])
    found = gap(Half(), problem, 0.1)
    only_first = np.mean([0, 0, 1, 9])
    everything = np.mean([1, 1, 1, 9])
    assert found.loss == pytest.approx((only_first + everything) / 2)
    assert found.n_selected == found.cost == pytest.approx(1.5)
    assert found.to_suwr == pytest.approx(found.loss + 0.15 - 0.15)
    assert found.to_lp == pytest.approx(found.to_suwr)
    assert "best leak-free policy" in found.summary()


def test_classifier_columns_follow_its_classes():
    problem = FiniteProblem(cube(2), ["no", "no", "no", "yes"], loss="cross_entropy")
    found = gap(Half(classifier=True), problem, 0.0, lp=False)
    only_first = -np.mean(np.log([0.4, 0.4, 0.2, 0.8]))
    everything = -np.mean(np.log([0.2, 0.2, 0.2, 0.8]))
    assert found.loss == pytest.approx((only_first + everything) / 2)
    assert np.isnan(found.to_lp)
    wrong = FiniteProblem(cube(2), ["no", "no", "no", "yes"], loss="zero_one")
    assert gap(Half(classifier=True), wrong, 0.0, lp=False).loss == pytest.approx(0.75)


def test_costs_enter_the_gap():
    problem = FiniteProblem(cube(2), [0, 0, 0, 4], costs=[1, 10])
    found = gap(Half(), problem, 0.1)
    assert found.cost == pytest.approx(0.5 * 1 + 0.5 * 11)
    assert found.n_selected == pytest.approx(1.5)


@pytest.mark.parametrize("loss", ["zero_one", "cross_entropy"])
@pytest.mark.parametrize("method", ["dp", "lp", "global"])
def test_gap_of_a_solution(loss, method):
    rng = np.random.default_rng(1)
    problem = FiniteProblem(cube(3), rng.dirichlet(np.ones(3), 8), rng.dirichlet(np.ones(8)),
                            loss=loss)  # fmt: skip
    solution = solve(problem, 0.05, method)
    found = gap(solution, problem, 0.05)
    assert found.loss == pytest.approx(solution.loss, abs=1e-7)
    assert found.cost == pytest.approx(solution.cost, abs=1e-7)
    if method == "dp":
        assert found.to_suwr == pytest.approx(0, abs=1e-12)
    if method == "lp":
        assert found.to_lp == pytest.approx(0, abs=1e-7)
    assert found.to_lp >= -1e-7


def test_the_two_optima_differ_on_the_five_blocks():
    problem, _ = five_blocks()
    found = gap(solve(problem, 0.1), problem, 0.1)
    assert found.to_suwr == pytest.approx(0)
    assert found.to_lp == pytest.approx(0.025)


def test_a_leaky_model_has_a_negative_gap():
    problem, masks = leaky_pair()

    class Leaky:
        def mask_probability(self, X, candidates):
            own = masks[problem.locate(X)]
            return (candidates == own[:, None]).all(axis=-1).astype(float)

        def predict_masked(self, X, masks):
            return np.asarray(X).sum(axis=1)

    found = gap(Leaky(), problem, 0.1)
    assert (found.loss, found.n_selected) == (0, 0.75)
    assert found.to_lp < 0
    assert found.to_suwr < 0


def test_the_model_receives_a_data_frame():
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": ["u", "v", "u", "v"]})
    problem = FiniteProblem(frame, [0.0, 0.0, 0.0, 4.0])

    class Named(Half):
        def mask_probability(self, X, masks):
            assert X.columns.tolist() == ["a", "b"]
            return super().mask_probability(X, masks)

        def predict_masked(self, X, masks):
            assert X["b"].isin(["u", "v"]).all()
            return np.zeros(len(X))

    assert gap(Named(), problem, 0.1).loss == pytest.approx(4.0)


def test_limits_reach_the_optima():
    problem = toy_problem(4)
    limited = gap(Half(), problem, 0.01, max_steps=1)
    assert limited.dp.n_selected <= 1
    assert limited.to_suwr < gap(Half(), problem, 0.01).to_suwr


def test_wrong_shapes():
    problem = FiniteProblem(cube(2), [0, 0, 0, 4])

    class Flat(Half):
        def mask_probability(self, X, masks):
            return np.ones(len(X))

    class Wide(Half):
        def predict_masked(self, X, masks):
            return np.ones((len(X), 3))

    with pytest.raises(ValueError, match=r"mask_probability.*\(4, 4\). Got shape \(4,\)"):
        gap(Flat(), problem, 0.1)
    with pytest.raises(ValueError, match=r"predict_masked.*values. Got shape"):
        gap(Wide(), problem, 0.1)
    with pytest.raises(ValueError, match="2 classes"):
        gap(Wide(classifier=True), FiniteProblem(cube(2), list("abab")), 0.1)
    with pytest.raises(ValueError, match="'sparsity_weight' parameter of gap"):
        gap(Half(), problem, None)
