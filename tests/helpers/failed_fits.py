"""Refits that fail at different points, and the state that they must leave unchanged."""

import pickle
from contextlib import contextmanager

import torch

from suwr.training import loop


@contextmanager
def unchanged(model, X):
    """Everything that the model knows and predicts is bit for bit the same after the block."""
    names = sorted(vars(model))
    before = [pickle.dumps(_plain(getattr(model, name))) for name in names]
    predicted, selected = model.predict(X), model.select(X)
    yield
    assert sorted(vars(model)) == names
    for name, stored in zip(names, before, strict=True):
        assert pickle.dumps(_plain(getattr(model, name))) == stored, name
    assert (model.predict(X) == predicted).all()
    assert (model.select(X) == selected).all()


def _plain(value):
    """Network weights as bytes; pickles of other fitted attributes are stable."""
    network = getattr(value, "network", value)
    if isinstance(network, torch.nn.Module):
        return {k: v.numpy().tobytes() for k, v in network.state_dict().items()}
    return value


def interrupt_training(monkeypatch, after=1):
    """Press Ctrl-C when the given number of epochs has been recorded."""
    record = loop._record

    def interrupted(epoch, phase, metrics):
        if epoch > after:
            raise KeyboardInterrupt
        return record(epoch, phase, metrics)

    monkeypatch.setattr(loop, "_record", interrupted)
