"""What a device is called, for records of experiments."""

from __future__ import annotations

import torch

__all__ = ["device_name"]


def device_name(device: str) -> str:
    """The name of the hardware behind a device.

    Examples
    --------
    >>> device_name("cpu")
    'cpu'
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_name(torch.device(device))
    return device
