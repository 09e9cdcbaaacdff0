"""LeMat-GenBench's evaluation, rebuilt (paper: app:eval-lemat).

    protocol = LematProtocol(pre_relax="mattersim-5m")
    rows = protocol.measure(crystals)

Validity first (charge cascade, distances, plausibility), and only valid structures go on: an ensemble of
potentials, each with its own hull, gives the mean energy above hull; then unique, novel, SUN and MSUN by its
own definitions. The benchmark's ensemble (Orb-v3, MACE-MP, UMA-s) is not what runs here by default; the
footer says what did. See docs/evaluation.md for what differs from the original, and `as_published`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from anchor.evaluate.protocol import RELAXED, Mean, Metric, Protocol, Rate, Row
from anchor.executors import Processes
from anchor.gates.lemat import LematGate, space_group_number
from anchor.hull.energies import single_point_chunks
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.matching.displacement import site_rmsd
from anchor.matching.kinds import KnownStructures, chemical_systems, matches_in
from anchor.matching.uniqueness import first_structures
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.search.rows import plain

ENSEMBLE = "mattersim-1m+chgnet"
"""What runs here without gated weights, and has calibrated hulls."""
METASTABLE_BELOW = 0.1
"""eV/atom; LeMat-GenBench's metastable is above 0 and at most this: it leaves out what is stable."""
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
        Metric("metastable_or_stable_count", "Meta", description="Valid, mean E_hull ≤ 0.1 eV/atom."),
        Metric("stable_count", "Stable", column="stable", description="Valid, mean E_hull ≤ 0."),
        Metric("stability_mean_above_hull", "E_hull", show="value", better="low", unit="eV/atom"),
        Metric(
            "msun_count",
            "MSUN",
            column="msun",
            description="0 < E_hull ≤ 0.1, unique among such, novel; without SUN.",
        ),
        Metric("sun_count", "SUN", column="sun", description="E_hull ≤ 0, unique among such, novel."),
        Metric("msun_or_sun_count", "MSUN+SUN", headline=False, description="What others call MSUN."),
        Metric(
            "metastable_count",
            "Metastable",
            column="metastable",
            headline=False,
            description="0 < E_hull ≤ 0.1 eV/atom.",
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
        self.pool = Processes(seconds=pair_seconds)
        self.gate = LematGate(as_published=as_published, pool=self.pool)
        self.matcher = StructureMatcher(ltol=LENGTH_TOLERANCE)

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

    # One structure alone

    def measure(self, crystals: Crystals) -> list[Row]:
        rows: list[Row] = [{} for _ in range(len(crystals))]
        submitted = self._pre_relaxed(crystals, rows)
        alive = [i for i, row in enumerate(rows) if row.get("status") != "failed"]
        valid = self._judge(submitted, alive, rows)
        for name in self.names:
            self._energies(name, submitted, valid, rows)
        return [{column: plain(value) for column, value in row.items()} for row in rows]

    def _pre_relaxed(self, crystals: Crystals, rows: list[Row]) -> Crystals:
        """What is judged: the structures as given, or pre-relaxed (then also under `RELAXED`)."""
        if self.pre_relaxer is None:
            return crystals
        found = self.relax(
            crystals,
            self.pre_relaxer,
            cell=True,
            max_steps=self.pre_relax_steps,
            fmax=self.fmax,
        )
        for i, row in enumerate(rows):
            row |= {"pre_relaxation": str(found.status[i]), "pre_relaxation_steps": found.steps[i]}
            if found.ended[i]:
                row[RELAXED] = found.crystals[i]
            else:
                why = f"pre-relaxation {found.status[i]}: {found.reason[i]}".removesuffix(": ")
                row |= {"status": "failed", "reason": why}
        return found.crystals

    def _judge(self, crystals: Crystals, alive: list[int], rows: list[Row]) -> list[int]:
        """Validity, and the columns of diversity and supply risk of valid structures; which are valid?"""
        for i, check in zip(alive, self.gate.check(crystals[alive]), strict=True):
            rows[i] |= {
                "valid": check.valid,
                "charge_ok": check.charge_ok,
                "distance_ok": check.distance_ok,
                "plausibility_ok": check.plausibility_ok,
                "charge_by": check.charge_by,
                "validity_reason": "; ".join(check.reasons),
            }
        valid = [i for i in alive if rows[i]["valid"]]
        chosen = crystals[valid]
        systems, sizes, risks = chemical_systems(chosen), size_columns(chosen), supply_risk(chosen)
        groups = self.pool.map(space_group_number, list(chosen))
        for place, i in enumerate(valid):
            rows[i] |= {
                "chemical_system": systems[place],
                "space_group": groups[place].value,
                **sizes[place],
                "hhi_production": risks[place, 0],
                "hhi_reserve": risks[place, 1],
            }
        return valid

    def _energies(self, name: str, submitted: Crystals, valid: list[int], rows: list[Row]) -> None:
        """One potential's energies of valid structures: as submitted, and relaxed."""
        potential = self.potentials[name]
        covered = [i for i, ok in zip(valid, potential.supports(submitted[valid]), strict=True) if ok]
        for i in set(valid) - set(covered):
            rows[i][f"{name}_relaxation"] = "element not covered"
        chosen = submitted[covered]
        single = np.full(len(chosen), np.nan)
        for members in single_point_chunks(chosen):
            single[members] = potential.evaluate(chosen[members]).energy
        found = self.relax(chosen, potential, cell=True, max_steps=self.max_steps, fmax=self.fmax)
        for place, i in enumerate(covered):
            ended = bool(found.ended[place])
            rmsd = site_rmsd(found.crystals[place], chosen[place], as_published=self.as_published)
            rows[i] |= {
                f"{name}_energy_ev": single[place],
                f"{name}_relaxed_energy_ev": found.energy[place] if ended else nan,
                f"{name}_relaxation": str(found.status[place]),
                f"{name}_relaxation_steps": found.steps[place],
                f"{name}_rmsd_angstrom": rmsd if ended else nan,
            }

    # All structures of a seed

    def flag(
        self, rows: Sequence[Row], raw: Sequence[Crystals | None], relaxed: Sequence[Crystals | None]
    ) -> list[Row]:
        valid = np.array([bool(row.get("valid")) for row in rows])
        judged: list[Crystals | None] = [
            (after if after is not None else before) if ok else None
            for before, after, ok in zip(raw, relaxed, valid, strict=True)
        ]
        energies = [self._ensemble(rows, judged, column) for column in ("energy_ev", "relaxed_energy_ev")]
        counted = energies[0 if self.as_published else 1]
        above = counted["mean"]
        first = first_structures(judged, matcher=self.matcher)
        matches, faults = matches_in(judged, self.known, self.matcher, self.pool)
        stable = valid & (above <= 0)
        metastable = valid & (above > 0) & (above <= METASTABLE_BELOW)
        unique_in_stable, unique_in_metastable = first_among(first, stable), first_among(first, metastable)
        flagged: list[Row] = []
        for i, row in enumerate(rows):
            novel = bool(valid[i] and not matches[i])
            original = first[i]
            flag = {
                "formation_energy_ev_per_atom": counted["formation"][i],
                "energy_above_hull_ev_per_atom": above[i],
                "ensemble_std_ev_per_atom": counted["std"][i],
                "n_potentials": int(counted["n"][i]),
                "energy_above_hull_as_submitted_ev_per_atom": energies[0]["mean"][i],
                "energy_above_hull_relaxed_ev_per_atom": energies[1]["mean"][i],
                **{f"{p}_above_hull_ev_per_atom": counted[p][i] for p in self.names},
                "rmsd_angstrom": _mean([row.get(f"{p}_rmsd_angstrom") for p in self.names]),
                "unique": original == i,
                "duplicate_of": None if original in (None, i) else rows[original or 0].get("index"),
                "novel": novel,
                "matches_in_reference": " ".join(matches[i]),
                "stable": stable[i],
                "metastable": metastable[i],
                "unique_in_stable": unique_in_stable[i],
                "unique_in_metastable": unique_in_metastable[i],
                "sun": unique_in_stable[i] and novel,
                "msun": unique_in_metastable[i] and novel,
                "matcher_fault": faults.get(i, ""),
            }
            flagged.append({column: plain(value) for column, value in flag.items()})
        return flagged

    def _ensemble(
        self, rows: Sequence[Row], judged: Sequence[Crystals | None], column: str
    ) -> dict[str, NDArray[np.float64]]:
        """Mean, standard deviation and number of potentials, mean formation energy, each by name.  # [n]"""
        there = [i for i, crystal in enumerate(judged) if crystal is not None]
        crystals = Crystals.concatenate(crystal for crystal in judged if crystal is not None)
        above = np.full((len(self.names), len(rows)), np.nan)
        formation = above.copy()
        for place, name in enumerate(self.names if there else []):
            energy = np.array([_value(rows[i].get(f"{name}_{column}")) for i in there])
            scores = self.hulls[name].score(
                crystals, energy, checkpoint_hash=self.potentials[name].checkpoint_hash
            )
            above[place, there], formation[place, there] = scores.energy_above_hull, scores.formation_energy
        number = np.isfinite(above).sum(axis=0)
        enough = number >= self.least_potentials
        return {
            "mean": np.where(enough, _nanmean(above), np.nan),
            "std": np.where(enough, np.sqrt(_nanmean((above - _nanmean(above)) ** 2)), np.nan),
            "formation": np.where(enough, _nanmean(formation), np.nan),
            "n": number.astype(np.float64),
            **dict(zip(self.names, above, strict=True)),
        }

    def metrics(self, rows: Sequence[Row]) -> dict[str, Rate | Mean]:
        """Counts of all rows, as in the paper; means and diversities of valid structures."""

        def count(*columns: str) -> Rate:
            return Rate.of(all(row.get(column) for column in columns) for row in rows)

        valid = [row for row in rows if row.get("valid")]

        def mean(column: str) -> Mean:
            return Mean.of(row.get(column) for row in valid)

        def scalar(value: float) -> Mean:
            return Mean(value, nan, len(valid))

        elements = {symbol for row in valid for symbol in str(row["chemical_system"]).split("-")}
        groups = {row["space_group"] for row in valid if row["space_group"] is not None}
        sizes = [{column: float(row[column]) for column in SIZE_BINS} for row in valid]
        production, reserve = mean("hhi_production"), mean("hhi_reserve")
        found: dict[str, Rate | Mean] = {
            "overall_valid_count": count("valid"),
            "charge_neutral_count": count("charge_ok"),
            "distance_valid_count": count("distance_ok"),
            "plausibility_valid_count": count("plausibility_ok"),
            "unique_count": count("valid", "unique"),
            "novel_count": count("valid", "novel"),
            "unique_novel_count": count("valid", "unique", "novel"),
            "stable_count": count("stable"),
            "metastable_count": count("metastable"),
            "metastable_or_stable_count": Rate.of(row.get("stable") or row.get("metastable") for row in rows),
            "unique_in_stable_count": count("unique_in_stable"),
            "unique_in_metastable_count": count("unique_in_metastable"),
            "sun_count": count("sun"),
            "msun_count": count("msun"),
            "msun_or_sun_count": Rate.of(row.get("sun") or row.get("msun") for row in rows),
            "scored_count": Rate.of(row.get("energy_above_hull_ev_per_atom") is not None for row in rows),
            "stability_mean_above_hull": mean("energy_above_hull_ev_per_atom"),
            "mean_formation_energy": mean("formation_energy_ev_per_atom"),
            "stability_mean_ensemble_std": mean("ensemble_std_ev_per_atom"),
            "mean_relaxation_RMSD": mean("rmsd_angstrom"),
            "element_diversity": Rate(len(elements), N_ELEMENTS),
            "space_group_diversity": Rate(len(groups), N_SPACE_GROUPS),
            "site_diversity": scalar(vendi_score(row["n_atoms"] for row in valid)),
            "physical_size_diversity": scalar(size_diversity(sizes, as_published=self.as_published)),
            "hhi_production_mean": production,
            "hhi_reserve_mean": reserve,
            "hhi_combined_mean": scalar(
                PRODUCTION_WEIGHT * production.value + RESERVE_WEIGHT * reserve.value
            ),
        }
        return {metric.name: found[metric.name] for metric in self.metric_list}

    # What made the numbers

    def tables(self, rows: Sequence[Row], *, label: str) -> dict[str, list[Row]]:
        """`lemat.csv`: the line of the benchmark's own table (no timestamp: equal runs, equal bytes)."""
        line = csv_row(self.metrics(rows), run_name=label, timestamp="", n_structures=len(rows))
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


def first_among(first: Sequence[int | None], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """First of its kind among the chosen: a duplicate counts if what it duplicates was not chosen.  # [n]"""
    found = np.zeros(len(first), dtype=bool)
    seen: set[int | None] = set()
    for i in np.flatnonzero(chosen).tolist():
        found[i] = first[i] not in seen
        seen.add(first[i])
    return found


def _nanmean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the finite values over the first axis, NaN where there is none."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(there, values, 0.0).sum(axis=0) / there.sum(axis=0)


def _value(value: float | None) -> float:
    return nan if value is None else float(value)


def _mean(values: Sequence[float | None]) -> float:
    return Mean.of(values).value
