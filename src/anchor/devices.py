"""Devices by name, refused when they are not there."""

from __future__ import annotations

import torch

from anchor.errors import InputError

KINDS = ("cpu", "cuda", "mps", "xpu")


def usable_device(name: str | torch.device) -> torch.device:
    """The device of that name.

    Raises:
        InputError: There is no such device here, or there never is.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in KINDS:
        raise InputError(f"'{name}' is no device", "choose cpu, cuda, cuda:1 or mps")
    if device.type == "cpu":
        return device
    module = getattr(torch, device.type)
    count = module.device_count() if module.is_available() else 0
    if (device.index or 0) >= count:
        there = f"{count} of its kind" if count else "none of its kind"
        raise InputError(f"there is no device '{name}' here: torch sees {there}", "use --device cpu")
    return device
