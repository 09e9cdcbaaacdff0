"""Devices by name, refused when they are not there; and the memory of the first of them."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import torch

from anchor.errors import InputError

KINDS = ("cpu", "cuda", "mps", "xpu")
KEPT_BYTES = 2**28
"""Freed memory that a process may keep."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


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


@cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep memory that was freed, up to `KEPT_BYTES`; whether it does.

    Each evaluation of a potential makes and frees the same arrays of a few hundred kilobytes. glibc gives
    such memory back to the system, which then has to clear every page again: 8 % of a relaxation's time.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 2**25)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
