"""Compositions first: what elements go together is learned before the crystals, for a thousandth of the cost.

The head for elements of a joint model sees features of the atoms and what the cell holds. The second part
needs no network, so it is taught alone on the compositions of the training crystals; then all is trained.
"""

from __future__ import annotations

import torch

from anchor.crystals.crystals import Crystals
from anchor.models.base import JointModel, Recipe
from anchor.models.training import even_times, learning_rate
from anchor.random import generator, torch_generator

EPOCHS = 25
BATCH = 256
RECIPE = Recipe(learning_rate=2e-3, warmup=10, schedule="cosine")


def learn_compositions(model: JointModel, crystals: Crystals, *, seed: int = 0) -> list[float]:
    """Teach the head for elements the compositions of crystals; returns each epoch's loss, nats per atom."""
    numbers = torch.from_numpy(crystals.padded()[0])
    parameters = [p for name, p in model.named_parameters() if name.startswith("type_head.")]
    optimiser = torch.optim.Adam(parameters, lr=RECIPE.learning_rate)
    each = -(-len(numbers) // BATCH)
    losses = []
    for epoch in range(EPOCHS):
        order = torch.from_numpy(generator(seed, "compositions", epoch).permutation(len(numbers)))
        total = 0.0
        for place, members in enumerate(order.split(BATCH)):
            step = epoch * each + place
            loss = model.composition_loss(
                numbers[members],
                even_times(len(members), seed, "compositions", step),
                torch_generator(seed, "noise of compositions", step),
            )
            if loss is None:
                return []
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(RECIPE, step, EPOCHS * each)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(members) / len(numbers)
        losses.append(total)
    return losses
