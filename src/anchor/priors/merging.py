"""Formulas in which several elements are one: which of them may share a role, and which templates fit then.

Li2FeMnO4 with iron and manganese as one is Li2M2O4, that is LiMO2, of which many crystals are known. Merged
elements count as one element whose distance from any other is the mean of theirs, by their numbers of atoms
(`anchor.priors.similarity`), so what nothing known can replace together is not merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import NUMBER
from anchor.priors.similarity import N_ELEMENTS
from anchor.priors.templates import Choice, TemplatePrior

COST_PER_MERGE = 1.0
"""Log-weight lost per element that shares the role of another, on the scale of the similarity."""
MOST_MERGED = 2
"""Elements that may disappear: two pairs, or three elements in one role."""

Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Merge:
    """A template for a merged formula.

    Attributes:
        crystal: Index into the reference.
        role_of: For each element of the template the number of the block that replaces it.
        blocks: Atomic numbers that share a role.
        times: How many template cells make the new cell.
        score: Log-votes, less what merging costs.
    """

    crystal: int
    role_of: dict[int, int]
    blocks: Blocks
    times: int
    score: float


def partitions(elements: Sequence[int], most_merged: int = MOST_MERGED) -> Iterator[Blocks]:
    """Ways to merge elements into at least two blocks, some element disappearing, fewest merged first."""
    found = [blocks for blocks in _all_partitions(tuple(elements)) if len(blocks) > 1]
    sizes = range(len(elements) - 1, max(1, len(elements) - 1 - most_merged), -1)
    for size in sizes:
        yield from (blocks for blocks in found if len(blocks) == size)


def _all_partitions(elements: tuple[int, ...]) -> Iterator[Blocks]:
    if not elements:
        yield ()
        return
    first, rest = elements[0], elements[1:]
    for blocks in _all_partitions(rest):
        yield ((first,), *blocks)
        for i, block in enumerate(blocks):
            yield (*blocks[:i], (first, *block), *blocks[i + 1 :])


def merges(templates: TemplatePrior, composition: Composition, units: int | None, size: int) -> list[Merge]:
    """The best templates of merged formulas, at most `size`.

    Args:
        templates: Where they come from.
        composition: Of the cell, or of one formula unit where the units are free.
        units: As in a request.
        size: How many.
    """
    counts = dict(zip((NUMBER[e] for e in composition.elements), composition.counts, strict=True))
    atoms = composition.n_atoms
    found: list[Merge] = []
    for blocks in partitions(sorted(counts)):
        sums = [sum(counts[z] for z in block) for block in blocks]
        order = np.argsort(sums, kind="stable")
        divisor = math.gcd(*sums)
        ratio = tuple(sums[i] // divisor for i in order)
        shelf = templates.shelves.get(ratio)
        if shelf is None:
            continue
        cell = np.lcm(shelf.units * sum(ratio), atoms)
        fits = cell <= templates.max_atoms if units is None else cell == atoms
        similarity = templates.fitted.similarity
        means = [
            np.average(similarity.distance[list(block)], axis=0, weights=[counts[z] for z in block])
            for block in blocks
        ]
        extended = replace(
            similarity, distance=np.concatenate([similarity.distance, np.array(means, dtype=np.float32)])
        )
        numbers = N_ELEMENTS + order
        chosen = templates.ranked(numbers, ratio, np.flatnonzero(fits), size, similarity=extended)
        cost = COST_PER_MERGE * (len(counts) - len(blocks))
        found += [_merge(choice, blocks, cost, templates, atoms) for choice in chosen]
    return sorted(found, key=lambda merge: -merge.score)[:size]


def _merge(choice: Choice, blocks: Blocks, cost: float, templates: TemplatePrior, atoms: int) -> Merge:
    held = int(templates.reference.crystals.counts[choice.crystal])
    role_of = {old: new - N_ELEMENTS for old, new in choice.replace.items()}
    return Merge(choice.crystal, role_of, blocks, math.lcm(held, atoms) // held, choice.votes - cost)
