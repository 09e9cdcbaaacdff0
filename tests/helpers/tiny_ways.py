"""What tiny models with random weights sample, recorded."""

from __future__ import annotations

from typing import TypeVar

import torch
from tiny_models import tiny, tiny_joint
from torch import Tensor

from anchor.models.base import JointModel, StructureModel, TrainableModel
from anchor.models.data import TrainingSet, reference_split
from anchor.models.noise import Noise
from anchor.models.transitions import Trajectory

Model = TypeVar("Model", bound=TrainableModel)
NUMBERS = torch.tensor([[11, 11, 17], [12, 12, 8]])


def noise(count: int, seed: int = 0) -> Noise:
    return Noise([torch.Generator().manual_seed(1000 * seed + i) for i in range(count)])


def model_of(name: str) -> StructureModel:
    """Random weights, none of them zero: networks start with heads that say nothing."""
    return _stirred(tiny(name))


def joint_model_of(name: str) -> JointModel:
    """The same of models that choose elements."""
    return _stirred(tiny_joint(name))


def _stirred(model: Model) -> Model:
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


def joint_rollout(model: JointModel, count: int = 2, n: int = 3, steps: int = 4) -> Trajectory:
    way = Trajectory()
    with torch.no_grad():
        model.create(n, noise(count), steps=steps, recorder=way)
    return way
