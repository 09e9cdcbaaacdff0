"""What tiny models with random weights sample, recorded."""

from __future__ import annotations

import torch
from tiny_models import tiny
from torch import Tensor

from anchor.models.base import StructureModel
from anchor.models.data import TrainingSet, reference_split
from anchor.models.noise import Noise
from anchor.models.transitions import Trajectory

NUMBERS = torch.tensor([[11, 11, 17], [12, 12, 8]])


def noise(count: int, seed: int = 0) -> Noise:
    return Noise([torch.Generator().manual_seed(1000 * seed + i) for i in range(count)])


def model_of(name: str) -> StructureModel:
    """Random weights, none of them zero: networks start with heads that say nothing."""
    model = tiny(name)
    model.fit_statistics(TrainingSet(reference_split("val")[:100]).crystals)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def rollout(model: StructureModel, numbers: Tensor = NUMBERS, steps: int = 4) -> Trajectory:
    way = Trajectory()
    with torch.no_grad():
        model.generate(numbers, noise(len(numbers)), steps=steps, recorder=way)
    return way
