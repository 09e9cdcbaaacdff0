"""LeMat-GenBench's evaluation, rebuilt (paper: app:eval-lemat).

    protocol = LematProtocol(pre_relax="mattersim-5m")
    table = protocol.measure(crystals)

Validity first (charge cascade, distances, plausibility), and only valid structures go on: an ensemble of
potentials, each with its own hull, gives the mean energy above hull; then unique, novel, SUN and MSUN by its
own definitions. The benchmark's ensemble (Orb-v3, MACE-MP, UMA-s) is not what runs here by default; the
footer says what did. See docs/protocols/lemat.md for what differs from the original, and `as_published`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from math import nan
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.evaluate.lemat.csv_line import csv_row
from anchor.evaluate.lemat.diversity import (
    N_ELEMENTS,
    N_SPACE_GROUPS,
    PRODUCTION_WEIGHT,
    RESERVE_WEIGHT,
    SIZE_BINS,
    size_columns,
    size_diversity,
    supply_risk,
    vendi_score,
)
from anchor.evaluate.lemat.hulls import NAMES, TableHull, hull_status, load_table_hull
from anchor.evaluate.protocol import Mean, Metric, Protocol, Rate
from anchor.executors import Executor
from anchor.gates.lemat import LematGate, space_group_number
from anchor.hull.energies import single_point_chunks
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.matching.displacement import site_rmsd
from anchor.matching.kinds import KnownStructures, chemical_systems, matches_in
from anchor.matching.uniqueness import first_structures
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION, METASTABLE_BELOW, STABLE_BELOW
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.table import Outcomes
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential

ENSEMBLE = "mattersim-1m+chgnet"
"""What runs here without gated weights, and has calibrated hulls."""
BETWEEN = f"{STABLE_BELOW:g} < E_hull ≤ {METASTABLE_BELOW:g}"
"""LeMat-GenBench's metastable: it leaves out what is stable."""
LENGTH_TOLERANCE = 0.1
"""ltol of its structure matcher; other tolerances are pymatgen's."""


class LematProtocol(Protocol):
    """LeMat-GenBench on an ensemble of one's choice.

    Args:
        ensemble: Names of potentials joined by "+".
        pre_relax: Relax every structure with this potential first, cell free, and judge what comes out.
        pre_relax_steps: Of that relaxation.
        hull: "union", "dft" or "potential" of the bundled reference, or "lemat-bulk" or "mp-20" (its own two,
            where their files are: `anchor.evaluate.lemat.hulls`).
        max_steps: Of the ensemble's relaxations.
        fmax: eV/Å, cell included.
        as_published: SUN from energies of structures as submitted, from as many potentials as gave one, and
            its other quirks; otherwise from relaxed energies, of at least two potentials (all, if there is
            one).
        pair_seconds: Work on one structure in pymatgen that takes longer is killed.
        device: Of the potentials.
    """

    name = "lemat"
    metric_list = (
        Metric(
            "overall_valid_count", "Valid", column="valid", description="Charge, distances and plausibility."
        ),
        Metric("charge_neutral_count", "Charge", column="charge_ok", headline=False),
        Metric("distance_valid_count", "Distance", column="distance_ok", headline=False),
        Metric("plausibility_valid_count", "Plausible", column="plausibility_ok", headline=False),
        Metric("unique_count", "Unique", description="Valid, first of its kind."),
        Metric(
            "novel_count", "Novel all", headline=False, description="Valid, matches no reference structure."
        ),
        Metric("unique_novel_count", "Novel", description="Valid, unique and novel: the paper's column."),
        Metric(
            "metastable_or_stable_count",
            "Meta",
            description=f"Valid, mean E_hull ≤ {METASTABLE_BELOW:g} eV/atom.",
        ),
        Metric(
            "stable_count", "Stable", column="stable", description=f"Valid, mean E_hull ≤ {STABLE_BELOW:g}."
        ),
        Metric("stability_mean_above_hull", "E_hull", show="value", better="low", unit="eV/atom"),
        Metric(
            "msun_count",
            "MSUN",
            column="msun",
            description=f"{BETWEEN}, unique among such, novel; without SUN.",
        ),
        Metric(
            "sun_count",
            "SUN",
            column="sun",
            description=f"E_hull ≤ {STABLE_BELOW:g}, unique among such, novel.",
        ),
        Metric("msun_or_sun_count", "MSUN+SUN", headline=False, description="What others call MSUN."),
        Metric(
            "metastable_count",
            "Metastable",
            column="metastable",
            headline=False,
            description=f"{BETWEEN} eV/atom.",
        ),
        Metric("unique_in_stable_count", "U stable", column="unique_in_stable", headline=False),
        Metric("unique_in_metastable_count", "U metastable", column="unique_in_metastable", headline=False),
        Metric("scored_count", "Scored", better=None, headline=False, description="Has an ensemble E_hull."),
        Metric("mean_formation_energy", "E_form", "value", None, "eV/atom", headline=False),
        Metric("stability_mean_ensemble_std", "Spread", "value", None, "eV/atom", headline=False),
        Metric("mean_relaxation_RMSD", "RMSD", "value", "low", "Å", headline=False),
        Metric("element_diversity", "Elements", headline=False, description="Distinct elements / 118."),
        Metric("space_group_diversity", "Groups", headline=False, description="Distinct space groups / 230."),
        Metric("site_diversity", "Sites", "value", "high", headline=False, description="Vendi score."),
        Metric("physical_size_diversity", "Sizes", "value", "high", headline=False),
        Metric("hhi_production_mean", "HHI p", "value", "low", headline=False),
        Metric("hhi_reserve_mean", "HHI r", "value", "low", headline=False),
        Metric("hhi_combined_mean", "HHI", "value", "low", headline=False),
    )

    def __init__(
        self,
        *,
        ensemble: str = ENSEMBLE,
        pre_relax: str | None = None,
        pre_relax_steps: int = 500,
        hull: str = "union",
        max_steps: int = 50,
        fmax: float = 0.02,
        as_published: bool = False,
        pair_seconds: float = 300.0,
        device: str = "cpu",
    ) -> None:
        if hull not in (choices := (*get_args(Kind), *NAMES)):
            raise InputError(f"there is no hull '{hull}'", nearest(hull, choices))
        self.names = [name.strip() for name in ensemble.split("+")]
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise InputError(
                f"the ensemble '{ensemble}' names a potential twice, or none", f"such as {ENSEMBLE}"
            )
        self.pre_relax_name, self.pre_relax_steps = pre_relax, pre_relax_steps
        self.hull_name, self.device = hull, device
        self.max_steps, self.fmax, self.as_published = max_steps, fmax, as_published
        self.least_potentials = 1 if as_published else min(2, len(self.names))
        self.pair_seconds = pair_seconds
        self.gate = LematGate(as_published=as_published)
        self.matcher = StructureMatcher(ltol=LENGTH_TOLERANCE)

    @cached_property
    def pool(self) -> Executor:
        """For pymatgen's work on single structures."""
        return self.watched(self.pair_seconds)

    @cached_property
    def potentials(self) -> dict[str, Potential]:
        return {name: load_potential(name, device=self.device) for name in self.names}

    @cached_property
    def pre_relaxer(self) -> Potential | None:
        if self.pre_relax_name is None:
            return None
        same = self.potentials.get(self.pre_relax_name)
        return same or load_potential(self.pre_relax_name, device=self.device)

    @cached_property
    def hulls(self) -> dict[str, PotentialHull | TableHull]:
        """Every potential's own hull."""
        if self.hull_name in NAMES:
            return {name: load_table_hull(self.hull_name, p) for name, p in self.potentials.items()}
        kind = next(kind for kind in get_args(Kind) if kind == self.hull_name)
        return {name: load_hull(p, kind) for name, p in self.potentials.items()}

    def hull_status(self) -> dict[str, str]:
        """Its own two hulls: 'here', or which files are missing."""
        return {name: hull_status(name, self.names) for name in NAMES}

    @cached_property
    def known(self) -> KnownStructures:
        """What novelty is asked against: LeMat-Bulk is not here."""
        return KnownStructures.bundled()

    @cached_property
    def judges(self) -> dict[str, Judge]:
        """Every potential with its own hull."""
        relaxing = Relaxing(cell=True, max_steps=self.max_steps, fmax=self.fmax)
        return {
            name: Judge(self.relaxer(p), self.hulls[name], relaxing) for name, p in self.potentials.items()
        }

    # One structure alone

    def measure(self, crystals: Crystals) -> Outcomes:
        table = self._pre_relaxed(crystals)
        valid = self._validated(table)
        for name in self.names:
            valid = self._energies(name, valid)
        relaxed = table if self.pre_relaxer is not None else Outcomes.blank(table.n)
        return valid.with_crystals(relaxed.crystals, relaxed.at)

    def _pre_relaxed(self, crystals: Crystals) -> Outcomes:
        """What is judged: the structures as given, or those that a pre-relaxation led to an end."""
        if self.pre_relaxer is None:
            return Outcomes.of(crystals)
        relaxing = Relaxing(cell=True, max_steps=self.pre_relax_steps, fmax=self.fmax)
        (found,) = Judge(self.relaxer(self.pre_relaxer), None, relaxing).relaxed([crystals])
        table = found.with_columns(
            pre_relaxation=found["relaxation"],
            pre_relaxation_steps=found["relaxation_steps"],
            reason=[f"pre-{why}" if why.startswith("relaxation") else why for why in found.texts("reason")],
        )
        ended = np.isfinite(found.numbers(ENERGY))
        return table.only(("pre_relaxation", "pre_relaxation_steps", "status", "reason")).keep_crystals(ended)

    def _validated(self, table: Outcomes) -> Outcomes:
        """Crystals of valid rows only, with the columns of diversity and supply risk."""
        checks = replace(self.gate, pool=self.pool).check(table.crystals)
        table = table.with_crystal_columns(
            valid=[check.valid for check in checks],
            charge_ok=[check.charge_ok for check in checks],
            distance_ok=[check.distance_ok for check in checks],
            plausibility_ok=[check.plausibility_ok for check in checks],
            charge_by=[check.charge_by for check in checks],
            validity_reason=["; ".join(check.reasons) for check in checks],
        )
        table = table.keep_crystals(table.flags("valid"))
        production, reserve = supply_risk(table.crystals).T
        return table.with_crystal_columns(
            chemical_system=chemical_systems(table.crystals),
            space_group=[one.value for one in self.pool.map(space_group_number, list(table.crystals))],
            **size_columns(table.crystals),
            hhi_production=production,
            hhi_reserve=reserve,
        )

    def _energies(self, name: str, valid: Outcomes) -> Outcomes:
        """One potential's energies of valid structures: as submitted, and relaxed."""
        judge, crystals = self.judges[name], valid.crystals
        covered = np.flatnonzero(judge.potential.supports(crystals))
        single = np.full(len(crystals), np.nan)
        for members in single_point_chunks(crystals[covered]):
            single[covered[members]] = judge.potential.evaluate(crystals[covered[members]]).energy
        (found,) = judge.relaxed([crystals])
        energy = found.numbers(ENERGY)
        rmsd = [
            site_rmsd(found.crystals[i], crystals[i], as_published=self.as_published) if there else nan
            for i, there in enumerate(np.isfinite(energy))
        ]
        columns: dict[str, Any] = {
            f"{name}_energy_ev": single,
            f"{name}_relaxed_energy_ev": energy,
            f"{name}_relaxation": found["relaxation"].filled("element not covered"),
            f"{name}_relaxation_steps": found["relaxation_steps"],
            f"{name}_rmsd_angstrom": rmsd,
        }
        return valid.with_crystal_columns(**columns)

    # All structures of a seed

    def flag(self, drawn: Outcomes, measured: Outcomes) -> Outcomes:
        valid = measured.flags("valid")
        judged = (drawn if self.pre_relax_name is None else measured).keep_crystals(valid)
        table = measured.with_crystals(judged.crystals, judged.at)
        submitted, relaxed = (self._ensemble(table, column) for column in ("energy_ev", "relaxed_energy_ev"))
        counted = submitted if self.as_published else relaxed
        above = counted["mean"]
        first = first_structures(table.crystals, matcher=self.matcher)
        matches, faults = matches_in(table.crystals, self.known, self.matcher, self.pool)
        duplicate = first != np.arange(len(first))
        novel = table.by_row(np.array([not ids for ids in matches], dtype=bool), False)
        stable = valid & (above <= STABLE_BELOW)
        metastable = valid & (above > STABLE_BELOW) & (above <= METASTABLE_BELOW)
        kind = table.by_row(first, -1)
        unique_in_stable, unique_in_metastable = first_among(kind, stable), first_among(kind, metastable)
        table = table.with_columns(
            **{FORMATION: counted["formation"], ABOVE: above},
            ensemble_std_ev_per_atom=counted["std"],
            n_potentials=counted["n"],
            energy_above_hull_as_submitted_ev_per_atom=submitted["mean"],
            energy_above_hull_relaxed_ev_per_atom=relaxed["mean"],
            **{f"{p}_above_hull_ev_per_atom": counted[p] for p in self.names},
            rmsd_angstrom=_nanmean(np.array([table.numbers(f"{p}_rmsd_angstrom") for p in self.names])),
            unique=table.by_row(~duplicate, False),
            duplicate_of=[None] * table.n,
            novel=novel,
            matches_in_reference=table.by_row([" ".join(ids) for ids in matches], ""),
            stable=stable,
            metastable=metastable,
            unique_in_stable=unique_in_stable,
            unique_in_metastable=unique_in_metastable,
            sun=unique_in_stable & novel,
            msun=unique_in_metastable & novel,
            matcher_fault=table.by_row([faults.get(i, "") for i in range(len(first))], ""),
        )
        original = np.ma.MaskedArray(table["index"][table.at[first]], mask=~duplicate)
        return table.with_crystal_columns(duplicate_of=original).with_crystals(measured.crystals, measured.at)

    def _ensemble(self, table: Outcomes, column: str) -> dict[str, NDArray[np.float64]]:
        """Mean, standard deviation and number of potentials, mean formation energy, each by name.  # [n]"""
        placed = [
            judge.placed(table.with_columns(**{ENERGY: table[f"{name}_{column}"]}))
            for name, judge in self.judges.items()
        ]
        above = np.array([one.numbers(ABOVE) for one in placed])
        formation = np.array([one.numbers(FORMATION) for one in placed])
        number = np.isfinite(above).sum(axis=0)
        enough = number >= self.least_potentials
        return {
            "mean": np.where(enough, _nanmean(above), np.nan),
            "std": np.where(enough, np.sqrt(_nanmean((above - _nanmean(above)) ** 2)), np.nan),
            "formation": np.where(enough, _nanmean(formation), np.nan),
            "n": number.astype(np.float64),
            **dict(zip(self.names, above, strict=True)),
        }

    def metrics(self, table: Outcomes) -> dict[str, Rate | Mean]:
        """Counts of all rows, as in the paper; means and diversities of valid structures."""
        valid, stable, sun = (table.flags(name) for name in ("valid", "stable", "sun"))
        unique, novel = table.flags("unique"), table.flags("novel")

        def mean(column: str) -> Mean:
            return Mean.of(table.numbers(column)[valid])

        def scalar(value: float) -> Mean:
            return Mean(value, nan, int(valid.sum()))

        systems = np.array(table.texts("chemical_system"), dtype=object)[valid]
        groups = table["space_group"][valid].compressed()
        sizes = {column: table.numbers(column)[valid] for column in SIZE_BINS}
        production, reserve = mean("hhi_production"), mean("hhi_reserve")
        found: dict[str, Rate | Mean] = {
            metric.name: Rate.of(table.flags(metric.column)) for metric in self.metric_list if metric.column
        }
        found |= {
            "unique_count": Rate.of(valid & unique),
            "novel_count": Rate.of(valid & novel),
            "unique_novel_count": Rate.of(valid & unique & novel),
            "metastable_or_stable_count": Rate.of(stable | table.flags("metastable")),
            "msun_or_sun_count": Rate.of(sun | table.flags("msun")),
            "scored_count": Rate.of(np.isfinite(table.numbers(ABOVE))),
            "stability_mean_above_hull": mean(ABOVE),
            "mean_formation_energy": mean(FORMATION),
            "stability_mean_ensemble_std": mean("ensemble_std_ev_per_atom"),
            "mean_relaxation_RMSD": mean("rmsd_angstrom"),
            "element_diversity": Rate(len({s for system in systems for s in system.split("-")}), N_ELEMENTS),
            "space_group_diversity": Rate(len(np.unique(groups)), N_SPACE_GROUPS),
            "site_diversity": scalar(vendi_score(table["n_atoms"][valid].tolist())),
            "physical_size_diversity": scalar(size_diversity(sizes, as_published=self.as_published)),
            "hhi_production_mean": production,
            "hhi_reserve_mean": reserve,
            "hhi_combined_mean": scalar(
                PRODUCTION_WEIGHT * production.value + RESERVE_WEIGHT * reserve.value
            ),
        }
        return {metric.name: found[metric.name] for metric in self.metric_list}

    # What made the numbers

    def tables(self, table: Outcomes, *, label: str) -> dict[str, list[dict[str, Any]]]:
        """`lemat.csv`: the line of the benchmark's own table (no timestamp: equal runs, equal bytes)."""
        line = csv_row(self.metrics(table), run_name=label, timestamp="", n_structures=table.n)
        return {"lemat.csv": [line]}

    def footer(self) -> dict[str, str]:
        weights = " + ".join(f"{p.name} ({p.checkpoint_hash[:12]})" for p in self.potentials.values())
        hulls = " + ".join(hull.identity.hash[:12] for hull in self.hulls.values())
        bundled = "" if self.hull_name in NAMES else " of the bundled OQMD reference, not LeMat-Bulk or MP-20"
        pre = "none" if self.pre_relaxer is None else (
            f"{self.pre_relaxer.name} ({self.pre_relaxer.checkpoint_hash[:12]}), cell free, "
            f"fmax {self.fmax:g} eV/Å, at most {self.pre_relax_steps} steps"
        )  # fmt: skip
        what = "as submitted" if self.as_published else "relaxed by each potential"
        return {
            "label": "lemat" if self.hull_name in NAMES else "lemat-on-OQMD",
            "gate": "LeMat-GenBench: charge cascade, distances, plausibility",
            "potential": f"mean of {weights}; the leaderboard's is Orb-v3 + MACE-MP + UMA-s",
            "hull": f"{self.hull_name}{bundled}, one per potential ({hulls})",
            "relaxation": f"energies of structures {what}, cell free, fmax {self.fmax:g} eV/Å, "
            f"at most {self.max_steps} steps",
            "pre-relaxation": pre,
            "novelty": f"{self.known.label}, structure matcher with ltol {LENGTH_TOLERANCE:g}",
            "smact": version("smact"),
            "counting": "as published" if self.as_published else "relaxed energies, all of n submitted",
        }

    def identity(self) -> dict[str, Any]:
        return {
            "protocol": self.name,
            "ensemble": {name: p.checkpoint_hash for name, p in self.potentials.items()},
            "pre_relax": None if self.pre_relaxer is None else self.pre_relaxer.checkpoint_hash,
            "pre_relax_steps": self.pre_relax_steps,
            "max_steps": self.max_steps,
            "fmax": self.fmax,
            "as_published": self.as_published,  # decides own images and displacements
            "device": self.device,
            "chunk": self.chunk,
            "packages": {name: version(name) for name in ("smact", "pymatgen", "spglib")},
        }


def first_among(kind: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """First of its kind among the chosen: a duplicate counts if what it duplicates was not chosen.  # [n]"""
    found = np.zeros(len(kind), dtype=bool)
    rows = np.flatnonzero(chosen)
    found[rows[np.unique(kind[rows], return_index=True)[1]]] = True
    return found


def _nanmean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the finite values over the first axis, NaN where there is none."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(there, values, 0.0).sum(axis=0) / there.sum(axis=0)
