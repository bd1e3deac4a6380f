"""A training step as a CUDA graph: thousands of small kernels, one launch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Recorded"]

# Calls that run as they are: optimizers make their state in them, libraries their workspace.
WARM_UP = 3


class Recorded:
    """A function of tensors that is recorded once and then replayed.

    It must do the same whatever the tensors hold, read nothing from Python that changes from call
    to call, change tensors only in place, and return nothing. All calls need the same shapes.

    Parameters
    ----------
    function : callable
    generator : torch.Generator
        The one that the function draws from, beside torch's own.
    """

    def __init__(self, function: Callable[..., None], generator: torch.Generator) -> None:
        self.function, self.generator = function, generator
        self.stream = torch.cuda.Stream(generator.device)
        self.calls = 0
        self.graph = torch.cuda.CUDAGraph()
        self.arguments: list[Tensor] = []

    def __call__(self, *arguments: Tensor) -> None:
        """Run the function, or replay it."""
        self.calls += 1
        if self.calls <= WARM_UP:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.function(*arguments)
            torch.cuda.current_stream().wait_stream(self.stream)
            return
        if not self.arguments:
            self.arguments = [argument.clone() for argument in arguments]
            self.graph.register_generator_state(self.generator)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.function(*self.arguments)
        for there, argument in zip(self.arguments, arguments, strict=True):
            there.copy_(argument)
        self.graph.replay()
