"""The paper's own protocol (app:eval_protocol): one gate, one relaxer, one hull, one fixed novelty index.

Structures are relaxed with MatterSim-5M for at most 400 steps, positions and lattice or positions only. Gate
and novelty act on the relaxed structure; the search's history plays no part.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.evaluate.protocol import Mean, Metric, Protocol, Rate
from anchor.hull.alex_mp import AlexMPHull, phases_from_file
from anchor.hull.energies import load_energies
from anchor.hull.merit import of_own_merit, strict_hulls
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.outcomes.checks import Checks
from anchor.outcomes.columns import ABOVE, ENERGY, METASTABLE_BELOW, NOVEL_ABOVE, STABLE_BELOW
from anchor.outcomes.judge import FAILED, NOT_SCORED, Judge, Relaxing
from anchor.outcomes.table import Outcomes
from anchor.outcomes.tally import NAMES, TALLY_COLUMNS, Tally
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.reference.reference import Reference, load_reference
from anchor.relax.engine import Optimizer
from anchor.reward.novelty import reference_novelty

POTENTIAL = "mattersim-5m"
"""The paper's evaluation potential."""

GateName = Literal["paper", "lemat"]
"""As in configurations."""
FLAGS = (*NAMES, "own_msun", "own_sun")
"""Yes-or-no columns that the rates count."""
LEMAT_COLUMNS = ("lemat_charge_ok", "lemat_distance_ok", "lemat_plausibility_ok")


class InternalProtocol(Protocol):
    """The paper's internal evaluation.

    Args:
        potential: Evaluation potential, a name or one that is loaded.
        cell: Relax the lattice too (main-text tables); False keeps it fixed (the appendix's *Lattice fixed*).
        max_steps: Step budget.
        fmax: Force at which a relaxation ends, eV/Å.
        optimizer: Of the relaxation; "ase-bfgs" is the paper's, one by one.
        gate: "paper" or "lemat".
        hull: Hull that counts.
        alex_mp: File of the Alex-MP reference: the paper's hull, in place of `hull`.
        device: Of the potential.
    """

    name = "internal"
    metric_list = (
        Metric("valid", "Valid", description="relaxed and passed the gate"),
        Metric("unique", "Unique", description="first of its reduced formula in sampling order, valid or no"),
        Metric("novel", "Novel", description=f"valid and ν > {NOVEL_ABOVE:g} against the reference alone"),
        Metric("metastable", "Meta", description=f"valid and E_hull ≤ {METASTABLE_BELOW:g} eV/atom"),
        Metric("stable", "Stable", description=f"valid and E_hull ≤ {STABLE_BELOW:g}"),
        Metric("msun", "MSUN", description="metastable, unique and novel"),
        Metric("sun", "SUN", description="stable, unique and novel"),
        Metric("known", "Known", "count", None, description="valid with a formula of the reference"),
        Metric(
            "known_anywhere", "Known any", "count", None, description="… of the reference, MP or OQMD"
        ),
        Metric("new_msun", "New MSUN", "count", "high", description="MSUN with a formula known nowhere"),
        Metric("new_sun", "New SUN", "count", "high", description="SUN with a formula known nowhere"),
        Metric("own_msun", "Own MSUN", "count", "high",
               description="MSUN that elements, which stand too high on the hulls, do not lend"),
        Metric("own_sun", "Own SUN", "count", "high", description="the same of SUN"),
        Metric("bonds_ok", "Bond", description="relaxed structure passes the bond check", headline=False),
        Metric("charge_ok", "Charge", description="the realised cell can be neutral", headline=False),
        Metric("energy_above_hull", "E_hull", "value", "low", "eV/atom", "mean over valid, scored structures",
               headline=False),
        Metric("failed", "Failed", "percent", "low", description="not read, not realised or not relaxed",
               headline=False),
        Metric("not_scored", "Not scored", "percent", None,
               description="an element that hull or potential does not cover", headline=False),
        Metric("converged", "Converged", description="relaxation met fmax within its steps", headline=False),
        Metric("steps", "Steps", "value", None, "", "mean relaxation steps", headline=False),
    )  # fmt: skip

    def __init__(
        self,
        *,
        potential: str | Potential = POTENTIAL,
        cell: bool = True,
        max_steps: int = 400,
        fmax: float = 0.02,
        optimizer: Optimizer = "quasi-newton",
        gate: GateName = "paper",
        hull: Kind = "union",
        alex_mp: Path | None = None,
        device: str = "cpu",
    ) -> None:
        if gate not in get_args(GateName):
            raise InputError(f"'{gate}' is not a gate", nearest(gate, get_args(GateName)))
        if hull not in get_args(Kind):
            raise InputError(f"there is no hull '{hull}'", nearest(hull, get_args(Kind)))
        if optimizer not in get_args(Optimizer):
            raise InputError(f"unknown optimizer '{optimizer}'", nearest(optimizer, get_args(Optimizer)))
        self._potential, self._hull, self._alex_mp, self._device = potential, hull, alex_mp, device
        self.cell, self.max_steps, self.fmax, self.optimizer = cell, max_steps, fmax, optimizer
        self.gate = gate

    # What it uses, loaded when first needed

    @cached_property
    def potential(self) -> Potential:
        given = self._potential
        return load_potential(given, device=self._device) if isinstance(given, str) else given

    @cached_property
    def hull(self) -> PotentialHull | AlexMPHull:
        if self._alex_mp is not None:
            return AlexMPHull(phases_from_file(self._alex_mp), self.potential)
        return load_hull(self.potential, self._hull)

    @cached_property
    def reference(self) -> Reference:
        return load_reference()

    @cached_property
    def checks(self) -> Checks:
        """Gate and embedding as in the paper's reward."""
        config = Config.model_validate({"gate": {"name": self.gate}})
        return Checks.from_config(config, self.reference)

    @cached_property
    def judge(self) -> Judge:
        relaxing = Relaxing(self.cell, self.max_steps, self.fmax, self.optimizer)
        return Judge(self.relaxer(self.potential), self.hull, relaxing, self.checks)

    # The three passes

    def measure(self, crystals: Crystals) -> Outcomes:
        """Relax and place on the hull; chunks are fixed, so a crystal's numbers depend on its chunk only."""
        (table,) = self.judge.relaxed([crystals])
        table = self.judge.placed(table.keep_crystals(np.isfinite(table.numbers(ENERGY))))
        return table.only(name for name in table.columns if name != "evaluations")

    placing = ("hull", "hull_kind")

    def place(self, measured: Outcomes) -> Outcomes:
        """Energies above this protocol's hull; the relaxed structures and energies stay."""
        return self.judge.placed(measured)

    def flag(self, drawn: Outcomes, measured: Outcomes) -> Outcomes:  # noqa: ARG002 — the gate judges what is relaxed
        """Gate, novelty, known formulas, and the paper's flags."""
        table, embeddings = self.checks(measured.with_columns(gate_reason=[""] * measured.n))
        valid, formulas = table.flags("valid")[table.at], table.texts("formula")
        scores = reference_novelty([formulas[row] for row in table.at], embeddings, self.reference.rdf)
        table = table.with_crystal_columns(
            novelty=[score.value if ok else None for score, ok in zip(scores, valid, strict=True)],
            novelty_branch=[score.branch if ok else None for score, ok in zip(scores, valid, strict=True)],
        ).with_columns(
            known_in=[",".join(sorted(self.reference.known(formula))) for formula in formulas],
        )
        columns = (*measured.columns, "charge_ok", *(LEMAT_COLUMNS if self.gate == "lemat" else ()),
                   "bonds_ok", "bond_ratio", "valid", "gate_reason", "novelty", "novelty_branch",
                   "known_in", *FLAGS)  # fmt: skip
        return table.with_columns(**_flags(table, self._own_merit(table))).only(columns)

    def _own_merit(self, table: Outcomes) -> NDArray[np.bool_]:
        """Which are where they are by themselves; on Alex-MP's hull nobody asks.  # [n]"""
        own = np.ones(table.n, dtype=bool)
        if isinstance(self.hull, PotentialHull):
            energies = load_energies(self.potential.name, self.reference.crystals)
            strict = strict_hulls(self.hull.databases, self.reference, energies)
            energy = table.numbers(ENERGY)[table.at] / table.crystals.counts
            amounts = table.crystals.compositions.amounts
            own[table.at] = of_own_merit(self.hull.databases, strict, amounts, energy)
        return own

    def metrics(self, table: Outcomes) -> dict[str, Rate | Mean]:
        """Percentages of all rows; the mean energy is over valid, scored structures."""
        found: dict[str, Rate | Mean] = {
            name: Rate.of(table.flags(name)) for name in (*FLAGS, "bonds_ok", "charge_ok")
        }
        found["energy_above_hull"] = Mean.of(table.numbers(ABOVE)[table.flags("valid")])
        found["failed"] = Rate.of(table.where("status", FAILED))
        found["not_scored"] = Rate.of(table.where("status", NOT_SCORED))
        found["converged"] = Rate.of(table.where("relaxation", "converged"))
        found["steps"] = Mean.of(table.numbers("relaxation_steps"))
        return {metric.name: found[metric.name] for metric in self.metric_list}

    # What made the numbers

    def footer(self) -> dict[str, str]:
        if self._alex_mp is not None:
            hull = f"Alex-MP ({self._alex_mp.name}), MP2020 corrections"
        else:
            both = f"OQMD, Materials Project and {self.potential.name}"
            what = {
                "dft": "OQMD",
                "potential": self.potential.name,
                "oqmd": f"OQMD and {self.potential.name}",
                "mp": f"Materials Project and {self.potential.name}",
                "union": both,
                "strict": f"{both}, elements where that has them",
                "unfilled": f"{both}, nothing filled in",
            }
            hull = (
                f"{self._hull}: {what[self._hull]} on the bundled reference, {self.identity()['hull'][:12]}"
            )
        return {
            "label": self.name,
            "gate": self.checks.gate.label,
            "potential": f"{self.potential.name} ({self.potential.checkpoint_hash[:12]})",
            "hull": hull,
            "relaxation": f"{'positions and cell' if self.cell else 'positions, lattice fixed'}, "
            f"{self.optimizer}, at most {self.max_steps} steps, fmax {self.fmax:g} eV/Å",
            "novelty": f"RDF against the bundled reference {self.reference.hash[:12]}, history off, "
            f"ν > {NOVEL_ABOVE:g}; unique by reduced formula",
        }

    def identity(self) -> dict[str, Any]:
        return {
            "protocol": self.name,
            "potential": {"name": self.potential.name, "hash": self.potential.checkpoint_hash},
            "hull": self.hull.identity.hash,
            "hull_kind": "alex-mp" if self._alex_mp else self._hull,
            "cell": self.cell,
            "max_steps": self.max_steps,
            "fmax": self.fmax,
            "optimizer": self.optimizer,
            "device": self._device,
            "chunk": self.chunk,
        }


def _flags(table: Outcomes, own: NDArray[np.bool_]) -> dict[str, list[bool]]:
    """The paper's flags; what was never read is not unique, not anything.  # n each"""
    tally, nothing = Tally(), dict.fromkeys(NAMES, False)
    found = [tally.add(row) if row["formula"] is not None else nothing for row in table.rows(TALLY_COLUMNS)]
    flags = {name: [one[name] for one in found] for name in NAMES}
    for name in ("msun", "sun"):
        flags[f"own_{name}"] = (np.array(flags[name], dtype=bool) & own).tolist()
    return flags
