"""The entropy coefficient β_H: a schedule over structures generated, and a proportional controller."""

from __future__ import annotations

import math

from anchor.config import Entropy


def scheduled_beta(structures: int, config: Entropy) -> float:
    """β_H before control: linear warm-up, plateau, cosine decay to the minimum.

    Args:
        structures: Structures generated before this step. Keyed to them and not to steps, so that runs with
            other group sizes see the same pressure at the same budget.

    With decay_start = 1 there is no decay, also beyond the horizon.
    """
    progress = structures / config.horizon
    if progress < config.warmup:
        return config.base * (config.warm_start + (1 - config.warm_start) * progress / config.warmup)
    if progress <= config.decay_start or config.decay_start == 1:
        return config.base
    decayed = min((progress - config.decay_start) / (1 - config.decay_start), 1.0)
    return config.minimum + (config.base - config.minimum) * (1 + math.cos(math.pi * decayed)) / 2


def controlled_beta(scheduled: float, entropy_fraction: float, config: Entropy) -> float:
    """β_H after control: multiplied by 1 + gain · (target − H/H_max) outside the dead band, then clipped.

    Too little entropy gives a larger coefficient. The paper names the controller but not its law; this one is
    linear, and it has no memory, so a resumed campaign needs no state of it.
    """
    error = config.target - entropy_fraction
    factor = 1.0 if abs(error) <= config.deadband else 1 + config.gain * error
    return min(max(scheduled * factor, config.minimum), config.maximum)
