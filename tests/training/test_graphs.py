"""A recorded step does what the plain one does. Needs CUDA, which no graph can do without."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import suwr.estimators.checkpoint as module
from suwr import Patches, SUWRClassifier
from suwr.nn import lookahead

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


def test_a_recorded_fit_is_as_good_as_a_plain_one(monkeypatch):
    X, y = load_digits(return_X_y=True)
    scores = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(lookahead, "Recorded", lambda function, generator: function)
        model = SUWRClassifier(
            groups=Patches((8, 8), 1), trainer="lookahead", max_steps=10, max_epochs=10,
            random_state=0, device="cuda",
        ).fit(X[:1400], y[:1400])  # fmt: skip
        scores.append(model.score(X[1400:], y[1400:]))
    assert min(scores) > 0.8
    assert abs(scores[0] - scores[1]) < 0.04


@pytest.mark.parametrize("changes", [{}, {"network": "conv"}, {"sparsity_weight": (0.001, 0.1)}])
def test_a_recorded_fit_that_was_stopped_goes_on_to_the_same_result(tmp_path, monkeypatch, changes):
    X, y = load_digits(return_X_y=True)

    def fit(**more):
        model = SUWRClassifier(
            groups=Patches((8, 8), 1), trainer="lookahead", max_steps=8, max_epochs=6,
            hidden_size=32, random_state=0, device="cuda", **changes, **more,
        )  # fmt: skip
        return model.fit(X[:1400], y[:1400])

    write, written = module.FileCheckpoint.write, []

    def writing(self, phase, state):
        write(self, phase, state)
        written.append(phase)
        if len(written) == 5:  # in the middle of look-ahead
            raise KeyboardInterrupt

    path = tmp_path / "fit.checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(module.FileCheckpoint, "write", writing)
        with pytest.raises(KeyboardInterrupt):
            fit(checkpoint=path)
    assert path.exists()
    resumed, whole = fit(checkpoint=path), fit()
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(resumed.select(X), whole.select(X))


def test_every_replay_draws_anew_and_reads_its_arguments():
    from suwr.training.graphs import WARM_UP, Recorded

    generator = torch.Generator("cuda").manual_seed(0)
    drawn = torch.zeros(5, device="cuda")

    def step(given: torch.Tensor) -> None:
        drawn.copy_(given + torch.rand(5, generator=generator, device="cuda"))

    recorded = Recorded(step, generator)
    seen = []
    for number in range(WARM_UP + 4):
        recorded(torch.full((5,), 10.0 * number, device="cuda"))
        seen.append(drawn.clone())
    noise = torch.stack([value - 10.0 * number for number, value in enumerate(seen)])
    assert bool(((noise >= 0) & (noise <= 1.001)).all())
    assert len(noise.round(decimals=3).unique()) > 4 * WARM_UP
