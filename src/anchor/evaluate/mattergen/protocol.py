"""MatterGen's evaluation, rebuilt (paper: app:eval-mattergen).

    protocol = MatterGenProtocol()
    rows = protocol.measure(crystals)

FIRE with a free cell under MatterSim-1M, the disordered structure matcher, SMACT, no validity gate. With
MatterGen's Alex-MP reference (`alex_mp=PATH`) energies get the Materials Project 2020 corrections and its
hull; without, hull and novelty are the bundled ones, the label says "mattergen-on-OQMD", and no correction is
added. See docs/evaluation.md for what differs from the original, and `as_published`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.evaluate.mattergen.official import official_metrics
from anchor.evaluate.protocol import RELAXED, Mean, Metric, Protocol, Rate, Row
from anchor.executors.killable import KillablePool
from anchor.gates.smact import composition_fault, structures_valid
from anchor.hull.alex_mp import AlexMPHull, phases_from_file
from anchor.hull.hull import SCORED
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.matching.disordered import DisorderedMatcher
from anchor.matching.displacement import mattergen_rmsd_of
from anchor.matching.kinds import KnownStructures, chemical_systems, first_of_kind, matches_in
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.search.rows import plain

STABLE_BELOW = 0.1
"""eV/atom above the hull; what MatterGen calls stable."""


class MatterGenProtocol(Protocol):
    """MatterGen's default configuration.

    Args:
        potential: Relaxes and gives energies; a name or one that is loaded.
        max_steps: Of a relaxation. MatterGen has no bound and may never end; what still moves is "capped",
            and its energy counts as it is.
        fmax: eV/Å, cell included.
        alex_mp: File of MatterGen's reference (`reference_MP2020correction.gz`, unpacked LMDB, or computed
            entries as JSON).
        hull: Which bundled hull counts where `alex_mp` is not given.
        as_published: MatterGen's own counting: see `metrics`, `structures_valid` and `mattergen_rmsd`.
        pair_seconds: A comparison of two structures that takes longer is killed, and they count as different.
        device: Of the potential.
    """

    name = "mattergen"
    metric_list = (
        Metric("frac_successful_jobs", "Relaxed", description="Relaxed with an energy."),
        Metric(
            "avg_comp_validity", "Comp", column="comp_validity", description="Composition valid by SMACT."
        ),
        Metric(
            "avg_structure_validity",
            "Struct",
            column="structure_validity",
            description="All distances ≥ 0.5 Å, volume ≥ 0.1 Å³.",
        ),
        Metric(
            "avg_structure_comp_validity",
            "Both",
            column="structure_comp_validity",
            headline=False,
            description="Both validities.",
        ),
        Metric("frac_unique_structures", "Unique", column="unique", description="First of its kind."),
        Metric(
            "frac_novel_structures", "Novel", column="novel", description="Matches no reference structure."
        ),
        Metric(
            "frac_novel_unique_structures",
            "UN",
            column="novel_unique",
            headline=False,
            description="Unique and novel.",
        ),
        Metric(
            "frac_stable_structures",
            "Meta",
            column="stable",
            description="E_hull ≤ 0.1 eV/atom: MatterGen's 'stable'.",
        ),
        Metric(
            "frac_on_hull_structures",
            "Stable",
            column="on_hull",
            description="E_hull ≤ 0 (the paper's column).",
        ),
        Metric(
            "frac_novel_unique_stable_structures",
            "MSUN",
            column="novel_unique_stable",
            description="MatterGen's S.U.N.: ≤ 0.1 eV/atom.",
        ),
        Metric(
            "frac_novel_unique_on_hull_structures",
            "SUN",
            column="novel_unique_on_hull",
            description="The same with E_hull ≤ 0.",
        ),
        Metric("avg_energy_above_hull_per_atom", "E_hull", show="value", better="low", unit="eV/atom"),
        Metric("avg_rmsd_from_relaxation", "RMSD", show="value", better="low", unit="Å"),
        Metric(
            "frac_unique_systems", "Systems", headline=False, description="Distinct chemical systems / n."
        ),
        Metric(
            "frac_novel_systems", "New systems", headline=False, description="Of these, not in the reference."
        ),
        Metric("precision", "Precision", better=None, headline=False, description="In the reference."),
        Metric("recall", "Recall", better=None, headline=False, description="Reference structures found."),
        Metric("frac_capped", "Capped", better=None, headline=False, description="Stopped by max_steps."),
    )

    def __init__(
        self,
        *,
        potential: str | Potential = "mattersim-1m",
        max_steps: int = 500,
        fmax: float = 0.05,
        alex_mp: Path | None = None,
        hull: Kind = "union",
        as_published: bool = False,
        pair_seconds: float = 60.0,
        device: str = "cpu",
    ) -> None:
        if hull not in get_args(Kind):
            raise InputError(f"there is no hull '{hull}'", nearest(hull, get_args(Kind)))
        self._potential, self.device = potential, device
        self.max_steps, self.fmax = max_steps, fmax
        self.alex_mp = None if alex_mp is None else Path(alex_mp)
        self.hull_kind: Kind = hull
        self.as_published = as_published
        self.matcher = DisorderedMatcher()
        self.pool = KillablePool(seconds=pair_seconds)

    @property
    def label(self) -> str:
        """'mattergen' with its own reference, 'mattergen-on-OQMD' with the bundled one."""
        return "mattergen-on-OQMD" if self.alex_mp is None else "mattergen"

    @cached_property
    def potential(self) -> Potential:
        given = self._potential
        return load_potential(given, device=self.device) if isinstance(given, str) else given

    @cached_property
    def hull(self) -> AlexMPHull | PotentialHull:
        if self.alex_mp is None:
            return load_hull(self.potential, self.hull_kind)
        return AlexMPHull(phases_from_file(self._reference_file()), self.potential)

    @cached_property
    def known(self) -> KnownStructures:
        """What novelty is asked against."""
        if self.alex_mp is None:
            return KnownStructures.bundled()
        return KnownStructures.from_file(self._reference_file(), "Alex-MP")

    def _reference_file(self) -> Path:
        assert self.alex_mp is not None
        if not self.alex_mp.exists():
            raise MissingDependencyError(
                f"the Alex-MP reference {self.alex_mp} is not there",
                "download data-release/alex-mp/reference_MP2020correction.gz of MatterGen (Git LFS), "
                "or leave alex_mp out to evaluate on the bundled reference",
            )
        return self.alex_mp

    # One structure alone

    def measure(self, crystals: Crystals) -> list[Row]:
        relaxation = self.relax(
            crystals,
            self.potential,
            cell=True,
            max_steps=self.max_steps,
            fmax=self.fmax,
            optimizer="fire",
        )
        ended = relaxation.ended & np.isfinite(relaxation.energy)
        energy = np.where(ended, relaxation.energy, np.nan)
        relaxed = relaxation.crystals
        scores = self.hull.score(relaxed, energy, checkpoint_hash=self.potential.checkpoint_hash)
        sound = structures_valid(relaxed, self_images=not self.as_published)
        chosen = np.flatnonzero(ended).tolist()
        tasks = [(relaxed[i], crystals[i], self.as_published) for i in chosen]
        rmsd = dict(zip(chosen, self.pool.map(mattergen_rmsd_of, tasks), strict=True))
        rows: list[Row] = []
        for i, system in enumerate(chemical_systems(crystals)):
            atoms = crystals[i].numbers.tolist()
            fault = composition_fault(Counter(SYMBOLS[z] for z in atoms))
            row: Row = {
                "chemical_system": system,
                "relaxation": str(relaxation.status[i]),
                "relaxation_steps": int(relaxation.steps[i]),
                "max_force_ev_per_angstrom": relaxation.max_force[i],
                "energy_ev": energy[i],
                "formation_energy_ev_per_atom": scores.formation_energy[i],
                "energy_above_hull_ev_per_atom": scores.energy_above_hull[i],
                "rmsd_from_relaxation_angstrom": rmsd[i].value if ended[i] else None,
                "comp_validity": not fault,
                "comp_fault": fault,
                "structure_validity": bool(ended[i] and sound[i]),
                "structure_comp_validity": bool(ended[i] and sound[i] and not fault),
            }
            if not ended[i]:
                reason = f"relaxation {relaxation.status[i]}: {relaxation.reason[i]}".removesuffix(": ")
                row |= {"status": "failed", "reason": reason}
            else:
                row[RELAXED] = relaxed[i]
                if scores.status[i] != SCORED:
                    row |= {"status": "not scored", "reason": scores.status[i].removeprefix("not scored: ")}
                elif rmsd[i].fault:
                    row["reason"] = f"no RMSD: {rmsd[i].fault}"
            rows.append({name: plain(value) for name, value in row.items()})
        return rows

    # All structures of a seed

    def flag(
        self, rows: Sequence[Row], raw: Sequence[Crystals | None], relaxed: Sequence[Crystals | None]
    ) -> list[Row]:
        del raw  # MatterGen compares relaxed structures
        first, unsure = first_of_kind(relaxed, self.matcher, self.pool)
        matches, unsure_known = matches_in(relaxed, self.known, self.matcher, self.pool)
        flagged: list[Row] = []
        for i, row in enumerate(rows):
            there = relaxed[i] is not None
            unique, novel = first[i] == i, there and not matches[i]
            original = first[i]
            above = row.get("energy_above_hull_ev_per_atom")
            stable, on_hull = (above is not None and above <= limit for limit in (STABLE_BELOW, 0.0))
            system = row.get("chemical_system")
            flagged.append(
                {
                    "unique": unique,
                    "duplicate_of": None if unique or original is None else rows[original].get("index"),
                    "novel": novel,
                    "matches_in_reference": " ".join(matches[i]),
                    "novel_unique": unique and novel,
                    "novel_system": system is not None and system not in self.known.systems,
                    "stable": stable,
                    "on_hull": on_hull,
                    "novel_unique_stable": unique and novel and stable,
                    "novel_unique_on_hull": unique and novel and on_hull,
                    "reference_size": len(self.known),
                    "matcher_fault": unsure.get(i, "") or unsure_known.get(i, ""),
                }
            )
        return flagged

    def metrics(self, rows: Sequence[Row]) -> dict[str, Rate | Mean]:
        """MatterGen's metrics, and E_hull ≤ 0 beside its own 0.1 eV/atom.

        Every rate is over all rows: what failed, or has an element without a reference, counts against it.
        As published, structures with such elements are screened out before (one of them would void all
        energies), and metrics of structures are over those that could be relaxed.
        """
        submitted = [row for row in rows if not (self.as_published and row.get("status") == "not scored")]
        there = (
            [row for row in submitted if row.get("energy_ev") is not None] if self.as_published else submitted
        )

        def rate(column: str, over: Sequence[Row]) -> Rate:
            return Rate.of(row.get(column) for row in over)

        systems = {row["chemical_system"] for row in there if row.get("chemical_system")}
        new = {row["chemical_system"] for row in there if row.get("novel_system")}
        found = {match for row in there for match in str(row.get("matches_in_reference") or "").split()}
        size = next((int(row["reference_size"]) for row in rows if row.get("reference_size")), 0)
        in_reference = sum(bool(row.get("matches_in_reference")) for row in there)
        return {
            "frac_successful_jobs": Rate.of(row.get("energy_ev") is not None for row in submitted),
            "avg_comp_validity": rate("comp_validity", there),
            "avg_structure_validity": rate("structure_validity", there),
            "avg_structure_comp_validity": rate("structure_comp_validity", there),
            "frac_unique_structures": rate("unique", there),
            "frac_novel_structures": rate("novel", there),
            "frac_novel_unique_structures": rate("novel_unique", there),
            "frac_stable_structures": rate("stable", submitted),
            "frac_on_hull_structures": rate("on_hull", submitted),
            "frac_novel_unique_stable_structures": rate("novel_unique_stable", submitted),
            "frac_novel_unique_on_hull_structures": rate("novel_unique_on_hull", submitted),
            "avg_energy_above_hull_per_atom": Mean.of(r.get("energy_above_hull_ev_per_atom") for r in there),
            "avg_rmsd_from_relaxation": Mean.of(row.get("rmsd_from_relaxation_angstrom") for row in there),
            "frac_unique_systems": Rate(len(systems), len(there)),
            "frac_novel_systems": Rate(len(new), len(there)),
            "precision": Rate(in_reference, len(there)),
            "recall": Rate(len(found), size),
            "frac_capped": Rate.of(row.get("relaxation") == "capped" for row in submitted),
        }

    def footer(self) -> dict[str, str]:
        if self.alex_mp is None:
            hull = f"{self.hull_kind} of the bundled reference, no MP2020 correction"
        elif self.potential.energies_corrected:
            hull = "Alex-MP; the potential's energies carry the MP2020 correction already"
        else:
            hull = "Alex-MP with MP2020 correction"
        return {
            "label": self.label,
            "gate": "none (MatterGen's validities are reported, not required)",
            "potential": f"{self.potential.name} ({self.potential.checkpoint_hash[:12]})",
            "hull": f"{hull} ({self.hull.identity.hash[:12]})",
            "relaxation": f"FIRE, cell free, fmax {self.fmax:g} eV/Å, at most {self.max_steps} steps",
            "novelty": self.known.label,
            "matcher": "disordered (MatterGen's rules)",
            "smact": version("smact"),
            "counting": "as published" if self.as_published else "every structure counts",
        }

    def identity(self) -> dict[str, Any]:
        return {
            "protocol": self.name,
            "potential": self.potential.checkpoint_hash,
            "hull": self.hull.identity.hash,
            "hull_kind": self.hull_kind if self.alex_mp is None else "alex-mp",
            "optimizer": "fire",
            "max_steps": self.max_steps,
            "fmax": self.fmax,
            "as_published": self.as_published,  # decides the RMSD
            "device": self.device,
            "chunk": self.chunk,
            "smact": version("smact"),
            "pymatgen": version("pymatgen"),
        }

    def official(self, crystals: Sequence[Crystals]) -> dict[str, float]:
        """The installed MatterGen's own numbers for the same structures; see `official_metrics`."""
        return official_metrics(
            crystals, elements=self.hull.elements, reference=self.alex_mp, device=self.device
        )
