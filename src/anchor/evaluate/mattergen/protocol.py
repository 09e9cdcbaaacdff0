"""MatterGen's evaluation, rebuilt (paper: app:eval-mattergen).

    protocol = MatterGenProtocol()
    table = protocol.measure(crystals)

FIRE with a free cell under MatterSim-1M, the disordered structure matcher, SMACT, no validity gate. With
MatterGen's Alex-MP reference (`alex_mp=PATH`) energies get the Materials Project 2020 corrections and its
hull; without, hull and novelty are the bundled ones, the label says "mattergen-on-OQMD", and no correction is
added. See docs/protocols/mattergen.md for what differs from the original, and `as_published`.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.evaluate.mattergen.official import official_metrics
from anchor.evaluate.protocol import Mean, Metric, Protocol, Rate
from anchor.executors import Executor
from anchor.gates.smact import SmactGate
from anchor.hull.alex_mp import AlexMPHull, phases_from_file
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.matching.disordered import DisorderedMatcher
from anchor.matching.displacement import mattergen_rmsd_of
from anchor.matching.kinds import KnownStructures, chemical_systems, first_of_kind, matches_in
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION, METASTABLE_BELOW, STABLE_BELOW
from anchor.outcomes.judge import MEASURED, NOT_SCORED, Judge, Relaxing
from anchor.outcomes.table import Outcomes
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential

MEASURED_COLUMNS = (
    "chemical_system", "relaxation", "relaxation_steps", "max_force_ev_per_angstrom", ENERGY, FORMATION,
    ABOVE, "rmsd_from_relaxation_angstrom", "comp_validity", "comp_fault", "structure_validity",
    "structure_comp_validity", "status", "reason",
)  # fmt: skip


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
        as_published: MatterGen's own counting: see `metrics`, `SmactGate` and `mattergen_rmsd`.
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
            description=f"E_hull ≤ {METASTABLE_BELOW:g} eV/atom: MatterGen's 'stable'.",
        ),
        Metric(
            "frac_on_hull_structures",
            "Stable",
            column="on_hull",
            description=f"E_hull ≤ {STABLE_BELOW:g} (the paper's column).",
        ),
        Metric(
            "frac_novel_unique_stable_structures",
            "MSUN",
            column="novel_unique_stable",
            description=f"MatterGen's S.U.N.: ≤ {METASTABLE_BELOW:g} eV/atom.",
        ),
        Metric(
            "frac_novel_unique_on_hull_structures",
            "SUN",
            column="novel_unique_on_hull",
            description=f"The same with E_hull ≤ {STABLE_BELOW:g}.",
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
        self.gate = SmactGate(as_published)
        self.matcher = DisorderedMatcher()
        self.pair_seconds = pair_seconds

    @property
    def label(self) -> str:
        """'mattergen' with its own reference, 'mattergen-on-OQMD' with the bundled one."""
        return "mattergen-on-OQMD" if self.alex_mp is None else "mattergen"

    @cached_property
    def pool(self) -> Executor:
        """For comparisons of two structures."""
        return self.watched(self.pair_seconds)

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

    @cached_property
    def judge(self) -> Judge:
        relaxing = Relaxing(cell=True, max_steps=self.max_steps, fmax=self.fmax, optimizer="fire")
        return Judge(self.relaxer(self.potential), self.hull, relaxing)

    # One structure alone

    def measure(self, crystals: Crystals) -> Outcomes:
        table = self.judge.placed(self.judge.relaxed([crystals])[0])
        ended = np.isfinite(table.numbers(ENERGY))
        contacts = minimum_image_distances(table.crystals, self_images=True)
        found = self.gate.verdicts(table.crystals, contacts).columns
        for name in ("structure_validity", "structure_comp_validity"):
            found[name] = found[name] & ended
        chosen = np.flatnonzero(ended).tolist()
        tasks = [(table.crystals[i], crystals[i], self.as_published) for i in chosen]
        rmsd, reason = np.full(table.n, np.nan), table.texts("reason")
        scored = table.where("status", MEASURED)
        for i, moved in zip(chosen, self.pool.map(mattergen_rmsd_of, tasks), strict=True):
            rmsd[i] = np.nan if moved.value is None else moved.value
            if moved.fault and scored[i]:
                reason[i] = f"no RMSD: {moved.fault}"
        table = table.with_columns(
            chemical_system=chemical_systems(crystals),
            rmsd_from_relaxation_angstrom=rmsd,
            reason=reason,
            **found,
        )
        return table.keep_crystals(ended).only(MEASURED_COLUMNS)

    # All structures of a seed

    def flag(self, drawn: Outcomes, measured: Outcomes) -> Outcomes:
        del drawn  # MatterGen compares relaxed structures
        table = measured
        first, unsure = first_of_kind(table.crystals, self.matcher, self.pool)
        matches, unsure_known = matches_in(table.crystals, self.known, self.matcher, self.pool)
        duplicate = first != np.arange(len(first))
        original = np.ma.MaskedArray(table["index"][table.at[first]], mask=~duplicate)
        unique = table.by_row(~duplicate, False)
        novel = table.by_row(np.array([not ids for ids in matches], dtype=bool), False)
        above = table.numbers(ABOVE)
        stable, on_hull = above <= METASTABLE_BELOW, above <= STABLE_BELOW
        systems = table.texts("chemical_system")
        faults = [unsure.get(i, "") or unsure_known.get(i, "") for i in range(len(first))]
        return table.with_columns(
            unique=unique,
            duplicate_of=[None] * table.n,
            novel=novel,
            matches_in_reference=table.by_row([" ".join(ids) for ids in matches], ""),
            novel_unique=unique & novel,
            novel_system=[system != "" and system not in self.known.systems for system in systems],
            stable=stable,
            on_hull=on_hull,
            novel_unique_stable=unique & novel & stable,
            novel_unique_on_hull=unique & novel & on_hull,
            reference_size=[len(self.known)] * table.n,
            matcher_fault=table.by_row(faults, ""),
        ).with_crystal_columns(duplicate_of=original)

    def metrics(self, table: Outcomes) -> dict[str, Rate | Mean]:
        """MatterGen's metrics, and E_hull ≤ 0 beside its own 0.1 eV/atom.

        Every rate is over all rows: what failed, or has an element without a reference, counts against it.
        As published, structures with such elements are screened out before (one of them would void all
        energies), and metrics of structures are over those that could be relaxed.
        """
        relaxed = np.isfinite(table.numbers(ENERGY))
        submitted = ~table.where("status", NOT_SCORED) if self.as_published else np.ones(table.n, dtype=bool)
        there = submitted & relaxed if self.as_published else submitted
        matches, systems = (
            np.array(table.texts(column), dtype=object)
            for column in ("matches_in_reference", "chemical_system")
        )
        new = systems[there & table.flags("novel_system")]
        found: dict[str, Rate | Mean] = {
            metric.name: Rate.of(
                table.flags(metric.column)[
                    submitted if metric.column.endswith(("stable", "on_hull")) else there
                ]
            )
            for metric in self.metric_list
            if metric.column
        }
        found |= {
            "frac_successful_jobs": Rate.of(relaxed[submitted]),
            "avg_energy_above_hull_per_atom": Mean.of(table.numbers(ABOVE)[there]),
            "avg_rmsd_from_relaxation": Mean.of(table.numbers("rmsd_from_relaxation_angstrom")[there]),
            "frac_unique_systems": Rate(len(set(systems[there]) - {""}), int(there.sum())),
            "frac_novel_systems": Rate(len(set(new)), int(there.sum())),
            "precision": Rate.of(matches[there] != ""),
            "recall": Rate(
                len({match for ids in matches[there] for match in ids.split()}),
                int(table["reference_size"].filled(0).max(initial=0)),
            ),
            "frac_capped": Rate.of(table.where("relaxation", "capped")[submitted]),
        }
        return {metric.name: found[metric.name] for metric in self.metric_list}

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

    def official(self, crystals: Crystals) -> dict[str, float]:
        """The installed MatterGen's own numbers for the same structures; see `official_metrics`."""
        return official_metrics(
            crystals, elements=self.hull.elements, reference=self.alex_mp, device=self.device
        )
