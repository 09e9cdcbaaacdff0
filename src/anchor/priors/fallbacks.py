"""Where no template has the stoichiometry: similar ones with some sites changed, or random crystals."""

from __future__ import annotations

from functools import cached_property
from itertools import permutations

import numpy as np
import spglib
from numpy.typing import NDArray

from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.models.volumes import Volumes
from anchor.priors.prototypes import Prototypes
from anchor.priors.random_crystals import RandomCrystals
from anchor.priors.request import Request
from anchor.priors.similarity import Similarity
from anchor.priors.units import with_units
from anchor.reference.reference import Reference

COST_PER_CHANGED_SITE = 1.5
"""Log-weight lost per site that takes an element of another role, on the scale of the similarity."""
MOST_CHANGED = 0.34
"""Share of the sites that may change; beyond it the template means nothing and a random crystal is drawn."""


class NearbyStoichiometries:
    """Templates with as many atoms and elements but other ratios; the excess sites are reassigned.

    Whole orbits of symmetry-equivalent sites are reassigned where their sizes allow it.
    """

    def __init__(
        self,
        reference: Reference,
        usable: NDArray[np.int64],
        prototypes: Prototypes,
        similarity: Similarity,
        volumes: Volumes,
        max_atoms: int,
        split: str,
    ) -> None:
        self._reference, self._usable = reference, usable
        self._prototypes, self._similarity, self._volumes = prototypes, similarity, volumes
        self._max_atoms = max_atoms
        self._random = RandomCrystals(volumes, reference=reference, split=split)

    @cached_property
    def _shelves(self) -> dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Templates and their counts by role, for each (atoms, elements)."""
        crystals, roles = self._reference.crystals, self._prototypes.roles
        offsets = crystals.offsets
        found: dict[tuple[int, int], list[tuple[int, list[int]]]] = {}
        for i in self._usable.tolist():
            atoms = crystals.numbers[offsets[i] : offsets[i + 1]]
            counts = [int((atoms == z).sum()) for z in roles[i] if z]
            found.setdefault((len(atoms), len(counts)), []).append((i, counts))
        return {
            key: (np.array([i for i, _ in rows]), np.array([counts for _, counts in rows]))
            for key, rows in found.items()
        }

    def draw_one(self, request: Request) -> Crystals:
        """One crystal; later draws take the next best templates."""
        if request.units is None:
            request = with_units(request, self._max_atoms)
        ranked = self._ranked(request)
        if request.draw >= len(ranked):
            return self._random.draw_one(request)
        template, elements = ranked[request.draw]
        return self._reassign(template, elements, request)

    def _ranked(self, request: Request) -> list[tuple[int, tuple[int, ...]]]:
        """(template, element of each role), best first; one per template."""
        counts = np.array(request.composition.counts)
        numbers = np.array([NUMBER[e] for e in request.composition.elements])
        k, atoms = len(counts), int(counts.sum())
        if (atoms, k) not in self._shelves:
            return []
        crystal, held = self._shelves[atoms, k]
        roles = self._prototypes.roles[crystal, :k]
        ways = np.array(list(permutations(range(k))))
        distance = self._similarity.distance
        share = held * k / atoms
        weights = share**self._similarity.share_exponent  # [m, k]
        alike = -(distance[numbers[ways][:, None, :], roles[None]] * weights).sum(axis=2)  # [p, m]
        changed = np.maximum(held[None] - counts[ways][:, None, :], 0).sum(axis=2)
        score = np.where(changed <= MOST_CHANGED * atoms, alike - COST_PER_CHANGED_SITE * changed, -np.inf)
        best = score.argmax(axis=0)
        top = score.max(axis=0)
        order = np.argsort(-top, kind="stable")
        return [
            (int(crystal[i]), tuple(numbers[ways[best[i]]].tolist())) for i in order if np.isfinite(top[i])
        ]

    def _reassign(self, template: int, elements: tuple[int, ...], request: Request) -> Crystals:
        old = self._reference.crystals[template]
        composition = request.composition
        wanted = dict(zip([NUMBER[e] for e in composition.elements], composition.counts, strict=True))
        role_of = {int(z): new for z, new in zip(self._prototypes.roles[template], elements, strict=False)}
        numbers = np.array([role_of[z] for z in old.numbers.tolist()])
        rng = request.rng("reassign", request.draw)
        orbits = _orbits(old)
        spare: list[NDArray[np.int64]] = []
        for element in elements:
            sites = np.flatnonzero(numbers == element)
            excess = len(sites) - wanted[element]
            if excess > 0:
                spare.append(_choose_sites(sites, orbits, excess, rng))
        free = np.concatenate([*spare, np.zeros(0, np.int64)]).astype(np.int64)
        for element in elements:
            lack = wanted[element] - int((numbers == element).sum())
            if lack > 0:
                taken = _choose_sites(free, orbits, lack, rng)
                numbers[taken] = element
                free = np.setdiff1d(free, taken)
        scale = self._volumes.ratio(numbers, old.numbers) ** (1 / 3)
        return Crystals(old.counts, numbers, old.frac, old.lattice * scale)


def _orbits(crystal: Crystals) -> NDArray[np.int64]:
    """Which sites are equivalent by symmetry, as labels; all different where spglib finds no symmetry."""
    cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
    dataset = spglib.get_symmetry_dataset(cell, symprec=0.05)
    return np.arange(crystal.n_atoms) if dataset is None else np.asarray(dataset.equivalent_atoms)


def _choose_sites(
    among: NDArray[np.int64], orbits: NDArray[np.int64], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`count` of the sites: whole orbits as far as they fit, the rest single sites."""
    chosen: list[int] = []
    labels = rng.permutation(np.unique(orbits[among]))
    for label in labels:
        members = among[orbits[among] == label]
        if len(chosen) + len(members) <= count:
            chosen += members.tolist()
    left = np.setdiff1d(among, chosen)
    return np.array(chosen + rng.permutation(left)[: count - len(chosen)].tolist(), dtype=np.int64)
