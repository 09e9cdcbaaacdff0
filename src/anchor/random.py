"""Named, counted random streams: one seed drives everything, and nothing depends on what ran before.

A stream is a pure function of (seed, names), so a campaign that is killed and resumed at step 17 draws for
step 17 exactly what an uninterrupted one draws: `generator(seed, "subgroup", 17)`.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def _entropy(seed: int, names: tuple[str | int, ...]) -> int:
    text = "/".join([str(int(seed)), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """NumPy generator of the stream `names` under `seed`."""
    return np.random.Generator(np.random.PCG64(_entropy(seed, names)))


def torch_generator(seed: int, *names: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """Torch generator of the stream `names` under `seed`, on `device`."""
    stream = torch.Generator(device=device)
    stream.manual_seed(_entropy(seed, names) % 2**63)
    return stream
