"""The training loop, on phases that only draw a random number per epoch."""

import numpy as np
import pytest
import torch
from torch import nn

from suwr import SUWRClassifier
from suwr.exceptions import ModelFileError
from suwr.training.loop import Metrics, Phase, run_phases
from suwr.training.registry import TRAINERS


class Drawing(Phase):
    def __init__(self, name, epochs, generator, patience=None):
        super().__init__(epochs)
        self.name, self.generator, self.patience = name, generator, patience
        self.network = nn.Linear(1, 1)
        self.modules = {"network": self.network}
        self.optimizers = {"all": torch.optim.Adam(self.network.parameters())}
        self.tensors = {"total": torch.zeros(())}

    @property
    def done(self):
        return super().done or self.epoch == self.patience

    def train_epoch(self):
        self.network.train()
        drawn = torch.rand((), generator=self.generator)
        self.tensors["total"] = self.tensors["total"] + drawn
        return Metrics(float(drawn), validation_objective=float(self.tensors["total"]))


class Memory:
    """A checkpoint in memory that interrupts the training after some writes."""

    def __init__(self, interrupt_after=None):
        self.saved, self.left = None, interrupt_after

    def read(self):
        return self.saved

    def write(self, phase, state):
        self.saved = phase, {name: tensor.clone() for name, tensor in state.items()}
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def train(checkpoint=None, progress=lambda epoch: None, **changes):
    generator = torch.Generator().manual_seed(0)
    phases = [
        lambda: Drawing("first", 3, generator),
        lambda: Drawing("second", 4, generator, **changes),
    ]
    return run_phases(phases, generator, progress, checkpoint)


def test_history_has_a_record_for_every_epoch():
    reported = []
    history = train(progress=reported.append)
    assert [record["epoch"] for record in history] == list(range(1, 8))
    assert [record["phase"] for record in history] == ["first"] * 3 + ["second"] * 4
    assert [record["training_loss"] for record in history] == [
        epoch.metrics.training_loss for epoch in reported
    ]
    assert [record["validation_objective"] for record in history] == [
        epoch.value for epoch in reported
    ]
    assert all(record["mean_cost"] is None for record in history)
    assert [(epoch.number, epoch.total) for epoch in reported[2:4]] == [(3, 3), (1, 4)]


@pytest.mark.parametrize("written", [1, 3, 5])
def test_interrupted_training_resumes_with_its_history(written):
    checkpoint = Memory(interrupt_after=written)
    with pytest.raises(KeyboardInterrupt):
        train(checkpoint)
    checkpoint.left = None
    assert train(checkpoint) == train()


def test_checkpoint_of_an_earlier_version_is_refused():
    checkpoint = Memory(interrupt_after=1)
    with pytest.raises(KeyboardInterrupt):
        train(checkpoint)
    del checkpoint.saved[1]["loop/history"]
    with pytest.raises(ModelFileError, match="another version"):
        train(checkpoint)


def test_phases_can_stop_early():
    assert len(train(patience=2)) == 5


def test_finished_phases_are_in_evaluation_mode():
    generator = torch.Generator().manual_seed(0)
    phase = Drawing("only", 1, generator)
    run_phases([lambda: phase], generator, lambda epoch: None)
    assert not phase.network.training


@pytest.mark.parametrize("trainer", sorted(TRAINERS))
def test_history_of_every_trainer(trainer):
    rng = np.random.RandomState(0)
    X = rng.randn(80, 4)
    clf = SUWRClassifier(
        trainer=trainer,
        max_epochs=2,
        training={"hidden_size": 8, "n_layers": 1},
        teacher=None,
        random_state=0,
    ).fit(X, X[:, 0] > 0)
    records = clf.history_
    plan = clf._plan(clf._prepare(X, X[:, 0] > 0, None), torch.Generator(), X)
    assert len(records) == TRAINERS[trainer].n_epochs(plan.task)
    assert all(np.isfinite(record["training_loss"]) for record in records)
    validated = [record for record in records if record["validation_objective"] is not None]
    assert len(validated) >= 2
    assert validated == [record for record in records if record["phase"] != "pretraining"]
    for record in validated:
        assert 0 <= record["mean_cost"] <= 4
        assert np.isfinite(record["validation_objective"])
