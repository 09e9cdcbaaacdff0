"""Random symmetric crystals: a space group, its sites filled to the exact atom counts, a cell it allows.

The last resort of the template prior, and a baseline that knows only symmetry, volumes and shortest bonds.
It makes a fixed number of attempts, so it never hangs; when none is good enough, the roomiest is returned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.crystals.crystals import Crystals
from anchor.crystals.spacegroups import Site, SpaceGroup, sites, space_group
from anchor.models.volumes import Volumes
from anchor.priors.base import Prior
from anchor.priors.fitted import load_fitted
from anchor.priors.overlaps import LARGEST_SWELLING, ROOMY, push_apart, room, shortest_bonds
from anchor.priors.request import Request
from anchor.priors.units import of_split
from anchor.reference.reference import Reference, load_reference

ATTEMPTS = 25
WORTH_PUSHING = 0.2
"""Atoms are pushed apart (`push_apart`) in attempts with at least this share; others are dropped."""
_SPREAD = 0.25  # standard deviation of the logarithm of cell lengths
_SKEW = 0.15  # standard deviation of the cosines between cell vectors


class RandomCrystals(Prior):
    """Crystals with the symmetry statistics of the reference and random sites, coordinates and cells.

    Args:
        volumes: Expected volumes.
        reference: Gives space groups (of crystals with as many atoms) and shortest bonds.
        split: Which of its crystals.
    """

    def __init__(
        self, volumes: Volumes | None = None, *, reference: Reference | None = None, split: str = "train"
    ) -> None:
        self.reference = load_reference() if reference is None else reference
        self.volumes = load_fitted().volumes if volumes is None else volumes
        self.name, self.max_atoms = "random", 20
        usable = of_split(self.reference, split)
        self._groups = self.reference.spacegroup[usable]
        self._counts = self.reference.crystals.counts[usable]
        self.elements = frozenset(np.unique(self.reference.crystals.numbers).tolist())
        self.shortest = shortest_bonds(self.reference)
        self.hash = content_hash(
            {
                "groups": self._groups,
                "counts": self._counts,
                "floor": self.shortest,
                "volumes": self.volumes.atomic,
            }
        )

    def draw(self, requests: Sequence[Request]) -> Crystals:
        return Crystals.concatenate(self.draw_one(request) for request in requests)

    def draw_one(self, request: Request) -> Crystals:
        """One crystal; every random number comes from the request."""
        rng = request.rng("random crystal", request.draw)
        numbers = request.composition.numbers
        elements, counts = np.unique(numbers, return_counts=True)
        likely = self._groups[self._counts == len(numbers)]
        likely = self._groups if not len(likely) else likely
        best, most_room = None, -1.0
        for attempt in range(ATTEMPTS):
            # The last attempts are without symmetry, which can hold any atoms.
            number = 1 if attempt >= ATTEMPTS - 5 else int(rng.choice(likely))
            crystal = self._attempt(space_group(number), elements, counts, rng)
            if crystal is None:
                continue
            swelling = LARGEST_SWELLING ** (attempt / ATTEMPTS)  # what does not fit gets a larger cell
            scale = (self.volumes.additive(numbers) * swelling / crystal.volume[0]) ** (1 / 3)
            crystal = crystal.replace(lattice=crystal.lattice * scale)
            space = float(room(crystal, self.shortest)[0])
            if WORTH_PUSHING < space < ROOMY:
                crystal = push_apart(crystal, self.shortest)
                space = float(room(crystal, self.shortest)[0])
            if space > most_room:
                best, most_room = crystal, space
            if most_room >= ROOMY:
                break
        assert best is not None, "space group 1 holds any atoms"
        return best

    def _attempt(
        self,
        group: SpaceGroup,
        elements: NDArray[np.int64],
        counts: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Crystals | None:
        filled = fill_sites(sites(group.number), counts.tolist(), rng)
        if filled is None:
            return None
        numbers, frac = [], []
        for element, chosen in zip(elements.tolist(), filled, strict=True):
            for site in chosen:
                orbit = group.orbit(site.point + rng.random(3) @ site.projector)
                if len(orbit) != site.multiplicity:
                    return None  # a random point of a line hit a more special one
                numbers += [element] * len(orbit)
                frac.append(orbit)
        return Crystals(
            np.array([len(numbers)]), np.array(numbers), np.concatenate(frac), random_cell(group, rng)[None]
        )


def fill_sites(
    available: Sequence[Site], counts: Sequence[int], rng: np.random.Generator
) -> list[list[Site]] | None:
    """Sites for each element whose multiplicities add up to its count exactly, or None when none were found.

    A point (freedom 0) is taken once; lines, planes and the general position any number of times.
    """
    used: set[int] = set()
    filled = []
    for count in counts:
        chosen: list[Site] = []
        left = count
        while left:
            open_sites = [
                i
                for i, site in enumerate(available)
                if site.multiplicity <= left and (site.freedom or i not in used)
            ]
            if not open_sites:
                return None
            i = int(rng.choice(open_sites))
            used.add(i)
            chosen.append(available[i])
            left -= available[i].multiplicity
        filled.append(chosen)
    return filled


def random_cell(group: SpaceGroup, rng: np.random.Generator) -> NDArray[np.float64]:
    """Primitive vectors as rows, allowed by the group, of no particular volume.  # [3, 3]"""
    lengths = np.exp(rng.normal(scale=_SPREAD, size=3))
    cosines = np.clip(rng.normal(scale=_SKEW, size=3), -0.4, 0.4)
    angles = np.array([[1, cosines[2], cosines[1]], [cosines[2], 1, cosines[0]], [cosines[1], cosines[0], 1]])
    conventional = angles * np.outer(lengths, lengths)  # positive definite: |cosines| ≤ 0.4
    metric = group.symmetrise(group.basis @ conventional @ group.basis.T)
    return np.linalg.cholesky(metric).astype(np.float64)


def load(*, device: str = "cpu", split: str = "train") -> RandomCrystals:
    """Random crystals after the bundled reference. They are made on the CPU always."""
    del device
    return RandomCrystals(split=split)
