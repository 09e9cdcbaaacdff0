"""The wyckoff model as a prior: best guesses first, then random crystals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.models.volumes import atomic_volumes
from anchor.models.wyckoff.encoding import Encoded, decode
from anchor.models.wyckoff.model import Wyckoff
from anchor.models.wyckoff.network import MOST_ATOMS
from anchor.models.wyckoff.sampler import Counts
from anchor.priors.base import Prior
from anchor.priors.overlaps import make_room, room, shortest_bonds
from anchor.priors.request import Request
from anchor.reference.reference import load_reference
from anchor.weights import live_hash

TIGHT = 0.7
"""Crystals in which a distance is a smaller share of the shortest known bond come after all others."""
_QUERIES = 8  # compositions per beam search: memory, not results


class WyckoffPrior(Prior):
    """Crystals of a trained `Wyckoff` model.

    Draw 0 of a composition is the most probable crystal, draw 1 the next, as far as the beam reaches; further
    draws are random crystals of the model. Atoms that are too close are pushed apart.

    Args:
        model: In evaluation mode, on `device`.
        elements: Atomic numbers seen in training.
        device: Where to compute.
        training: What the card says of the training: steps, epochs, hours.
    """

    def __init__(
        self,
        model: Wyckoff,
        *,
        elements: frozenset[int],
        device: str = "cpu",
        training: Mapping[str, float] | None = None,
    ) -> None:
        self.model, self.device = model, device
        self.name, self.max_atoms, self.elements = model.name, MOST_ATOMS, elements
        self.shortest = shortest_bonds(load_reference())
        self.training = {} if training is None else dict(training)
        self.writer = model.writer()

    @property
    def hash(self) -> str:  # type: ignore[override]  # read-only here
        """Of the weights as they are now, all settings, and what atoms are known to need."""
        settings = json.dumps(self.model.settings(), sort_keys=True)
        return live_hash(self.model, settings, shortest=self.shortest, volumes=atomic_volumes())

    def draw(self, requests: Sequence[Request]) -> Crystals:
        asked = list(dict.fromkeys(_key(request) for request in requests))
        ranked = dict(zip(asked, self.best([dict(key) for key in asked]), strict=True))
        beyond = [request for request in requests if request.draw >= len(ranked[_key(request)])]
        random = iter(self.random(beyond))
        found = [
            ranked[_key(request)][request.draw].crystal
            if request.draw < len(ranked[_key(request)])
            else next(random)
            for request in requests
        ]
        return make_room(Crystals.concatenate(found), self.shortest)

    def best(self, queries: Sequence[Counts]) -> list[list[Written]]:
        """The most probable crystals of every composition, tight ones last."""
        answers = []
        for start in range(0, len(queries), _QUERIES):
            beams = self.writer.best(queries[start : start + _QUERIES], width=self.model.chosen.beam)
            described = self.model.described(self.writer, [draft for beam in beams for draft in beam])
            crystals = [decode(one) for one in described]
            tight = room(Crystals.concatenate(crystals), self.shortest) < TIGHT
            written = iter(map(Written, described, crystals, tight.tolist()))
            answers += [sorted((next(written) for _ in beam), key=lambda one: one.tight) for beam in beams]
        return answers

    def random(self, requests: Sequence[Request]) -> list[Crystals]:
        """A random crystal for each request, as the model makes it."""
        drafts = self.writer.random(
            [dict(_key(request)) for request in requests],
            [request.rng("wyckoff", request.draw) for request in requests],
        )
        return [decode(one) for one in self.model.described(self.writer, drafts)]


@dataclass(frozen=True, eq=False)
class Written:
    """A crystal of the beam.

    Attributes:
        description: Its symmetry.
        crystal: A batch of one.
        tight: Whether atoms are too close.
    """

    description: Encoded
    crystal: Crystals
    tight: bool


def _key(request: Request) -> tuple[tuple[int, int], ...]:
    """Atoms by element: what was asked for, not how it was written."""
    numbers, counts = np.unique(request.composition.numbers, return_counts=True)
    return tuple(zip(numbers.tolist(), counts.tolist(), strict=True))
