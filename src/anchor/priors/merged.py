"""Merged prior: the known structure of a simpler formula, with several elements ordered on the sites of one.

For compositions whose stoichiometry no template has, most of all with four elements: similar elements are
taken as one (`anchor.priors.merging`), the best templates of the simpler formula are found as the template
prior does, and the elements are ordered on the shared sites (`anchor.priors.orderings`), each ordering once
up to symmetry, lowest electrostatic energy first. Nothing is random. Where nothing can be merged another
prior answers, or nobody does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.chemistry.charge import neutral_assignment
from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import find_operations
from anchor.priors.base import Prior, Sampled
from anchor.priors.merging import COST_PER_MERGE, MOST_MERGED, Merge, merges
from anchor.priors.orderings import SYMPREC, orderings
from anchor.priors.overlaps import make_room, shortest_bonds
from anchor.priors.prototypes import fingerprint
from anchor.priors.registry import load_prior
from anchor.priors.request import Request
from anchor.priors.similarity import N_ELEMENTS
from anchor.priors.supercells import distinct_supercells
from anchor.priors.templates import TemplatePrior

TEMPLATES = 6
"""Templates that are ordered, for the first draws; further draws ask for more."""
SHAPES = 6
"""Supercells of a template that are ordered, up to symmetry: doubled rock salt has two, perovskites three."""
ORDERINGS = 3
"""Orderings of each supercell that compete."""
COST_PER_RANK = 0.7
"""Log-weight lost by each further ordering of a template: log 2, so that the second one of the best template
comes after the first one of a template with half its votes."""
SAME = 0.01
"""Difference of fingerprints below which two crystals are the same one, reached by different ways."""


class MergedPrior(Prior):
    """See the module's docstring.

    Args:
        templates: Where structures come from.
        fallback: Name of the prior that answers where nothing can be merged, or "none".
    """

    chooses_units: ClassVar[bool] = True

    def __init__(self, templates: TemplatePrior, *, fallback: str = "none", name: str = "merged") -> None:
        self.templates, self.fallback, self.name = templates, fallback, name
        self.elements, self.max_atoms = templates.elements, templates.max_atoms
        self._shortest = shortest_bonds(templates.reference)
        settings = f"{templates.hash}|{fallback}|{TEMPLATES}|{SHAPES}|{ORDERINGS}|{COST_PER_RANK}|"
        settings += f"{SAME}|{COST_PER_MERGE}|{MOST_MERGED}"
        self.hash = content_hash({"settings": np.frombuffer(settings.encode(), dtype=np.uint8)})

    def draw(self, requests: Sequence[Request]) -> Sampled:
        needed: dict[tuple[Composition, int | None], int] = {}
        for request in requests:
            key = (request.composition, request.units)
            needed[key] = max(needed.get(key, 0), request.draw + 1)
        lists = {key: self.choices(*key, size) for key, size in needed.items()}
        made: dict[int, tuple[Crystals, str]] = {}
        missing: dict[int, str] = {}
        for i, request in enumerate(requests):
            found = lists[request.composition, request.units]
            if request.draw < len(found):
                made[i] = (found[request.draw], self.name)
            else:
                missing[i] = (
                    f"'{self.name}' knows {len(found)} crystals of {request.composition} with merged elements"
                )
        sampled = Sampled.gather(made, missing)
        if not missing or self.fallback == "none":
            return sampled
        return sampled.filled(requests, load_prior(self.fallback))

    def choices(self, composition: Composition, units: int | None, size: int) -> list[Crystals]:
        """At least `size` different crystals, best first, fewer only when there are no more."""
        charges = _charges(composition)
        ranked: list[tuple[float, Crystals]] = []
        for merge in merges(self.templates, composition, units, max(TEMPLATES, size)):
            for rank, crystal in enumerate(self._orderings(merge, composition, charges)):
                ranked.append((merge.score - COST_PER_RANK * rank, crystal))
        ranked.sort(key=lambda pair: -pair[0])
        found: list[Crystals] = []
        prints: list[NDArray[np.float64]] = []
        for _, crystal in ranked:
            own = fingerprint(crystal)
            if all(np.sqrt(((own - other) ** 2).mean()) > SAME for other in prints):
                prints.append(own)
                found.append(crystal)
            if len(found) == size:
                break
        return list(make_room(Crystals.concatenate(found), self._shortest)) if found else []

    def _orderings(
        self, merge: Merge, composition: Composition, charges: NDArray[np.float64]
    ) -> list[Crystals]:
        """The best orderings of one template, over all shapes of its supercell."""
        template = self.templates.reference.crystals[merge.crystal]
        atoms = template.n_atoms * merge.times
        units = atoms // composition.n_atoms
        counts = {NUMBER[e]: n * units for e, n in zip(composition.elements, composition.counts, strict=True)}
        # Roles that one element has are named by it, shared ones by numbers beyond the elements.
        name = [block[0] if len(block) == 1 else N_ELEMENTS + i for i, block in enumerate(merge.blocks)]
        mixed = {
            N_ELEMENTS + i: {z: counts[z] for z in block}
            for i, block in enumerate(merge.blocks)
            if len(block) > 1
        }
        roles = np.array([name[merge.role_of[z]] for z in template.numbers.tolist()])
        plain = Crystals(template.counts, roles, template.frac, template.lattice)
        symmetry = find_operations(plain, SYMPREC)
        rotations = np.eye(3, dtype=np.int64)[None] if symmetry is None else symmetry.rotations
        shapes = distinct_supercells(plain, merge.times, rotations, SHAPES)
        every = [one for large in shapes for one in orderings(large, mixed, charges)[:ORDERINGS]]
        best = [one.crystal for one in sorted(every, key=lambda one: one.rank)]
        numbers = np.repeat(list(counts), list(counts.values()))
        scale = self.templates.fitted.volumes.ratio(numbers, template.numbers) ** (1 / 3)
        return [crystal.replace(lattice=crystal.lattice * scale) for crystal in best]


def _charges(composition: Composition) -> NDArray[np.float64]:
    """Mean charge of each element's atoms; zero where the composition cannot be neutral.  # [119], e"""
    charges = np.zeros(N_ELEMENTS)
    for symbol, states in (neutral_assignment(composition.elements, composition.counts) or {}).items():
        charges[NUMBER[symbol]] = math.fsum(states) / len(states)
    return charges


def load(
    *, device: str = "cpu", split: Literal["train", "all"] = "train", fallback: str = "templates"
) -> MergedPrior:
    """The merged prior over the bundled reference. It computes on the CPU always.

    Args:
        split: Which reference crystals serve as templates.
        fallback: Prior that answers where nothing can be merged, or "none".
    """
    del device
    from anchor.priors.templates import load as load_templates

    return MergedPrior(load_templates(split=split), fallback=fallback)
