"""What is asked of a relaxed crystal without a potential: gate, bonds, charge, embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts, minimum_image_distances
from anchor.crystals.rdf import rdf_embedding
from anchor.gates.base import Gate
from anchor.gates.lemat import LematGate
from anchor.gates.paper import PaperGate, bond_thresholds
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.table import Outcomes
from anchor.reference.bonds import radius_floor
from anchor.reference.reference import Reference

Embed = Callable[[Crystals, Contacts | None], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Checks:
    """Gate and embedding.

    Attributes:
        paper: The paper's bond and charge checks, always made.
        gate: Decides what is valid: the paper's, or another.
        embed: RDF embedding for novelty and diversity.  # Crystals, their contacts -> [m, n_bins]
    """

    paper: PaperGate
    gate: Gate
    embed: Embed

    @classmethod
    def from_config(cls, config: Config, reference: Reference) -> Checks:
        """The gate and the embedding that a config names."""
        settings, novelty = config.gate, config.novelty
        fallback: float | NDArray[np.float64] = settings.fallback_distance
        if settings.fallback == "radii":
            fallback = radius_floor()
        table = reference.bonds
        paper = PaperGate(
            bond_thresholds(table.minimum, tolerance=settings.bond_tolerance, fallback=fallback),
            table,
            settings.fallback_distance,
            settings.oxidation_bounds,
        )
        embed = partial(_embed, r_max=novelty.r_max, n_bins=novelty.n_bins, primitive=novelty.primitive)
        return cls(paper, LematGate() if settings.name == "lemat" else paper, embed)

    def __call__(self, table: Outcomes) -> tuple[Outcomes, NDArray[np.float64]]:
        """The table with the gate's columns, and the embeddings of its crystals.  # [m, n_bins]

        Neighbours are looked for once for all of it. What has no energy is not valid.
        """
        crystals = table.crystals
        contacts = minimum_image_distances(crystals, self_images=True)
        paper = self.paper.verdicts(crystals, contacts)
        verdicts = paper if self.gate is self.paper else self.gate.verdicts(crystals, contacts)
        relaxed = np.isfinite(table.numbers(ENERGY)[table.at])
        table = table.with_columns(valid=np.zeros(table.n, dtype=bool)).with_crystal_columns(
            valid=verdicts.ok & relaxed, gate_reason=verdicts.reason, **paper.columns | verdicts.columns
        )
        return table, self.embed(crystals, contacts)


def _embed(
    crystals: Crystals, contacts: Contacts | None, *, r_max: float, n_bins: int, primitive: bool
) -> NDArray[np.float64]:
    if primitive:
        crystals = Crystals.from_structures([s.get_primitive_structure() for s in crystals.to_structures()])
        contacts = None
    return rdf_embedding(crystals, r_max=r_max, n_bins=n_bins, contacts=contacts)
