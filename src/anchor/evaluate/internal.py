"""The paper's own protocol (app:eval_protocol): one gate, one relaxer, one hull, one fixed novelty index.

Structures are relaxed with MatterSim-5M for at most 400 steps, positions and lattice or positions only. Gate
and novelty act on the relaxed structure; the search's history plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from anchor.chemistry.charge import ASSIGNED_ATOMS, neutral_assignment
from anchor.chemistry.composition import MAX_ELEMENTS, Composition, Compositions, parse_formula
from anchor.chemistry.elements import INDEX, SYMBOLS
from anchor.config import Config, Evaluation
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.evaluate.protocol import RELAXED, Mean, Metric, Protocol, Rate, Row
from anchor.gates.lemat import LematGate
from anchor.gates.paper import check_bonds, check_charges
from anchor.hull.alex_mp import AlexMPHull, phases_from_file
from anchor.hull.references import Kind, PotentialHull, load_hull
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.reference.reference import Reference, load_reference
from anchor.relax.engine import Optimizer
from anchor.reward.novelty import adaptive_novelty
from anchor.reward.score import GroupScorer
from anchor.search.environment import make_scorer
from anchor.search.rows import plain
from anchor.search.tally import Tally

DEFAULTS = Evaluation()
"""The paper's values."""

GateName = Literal["anchor", "lemat"]
GATES = {
    "anchor": "anchor: shortest bonds of the reference − 20 %, ICSD oxidation states",
    "lemat": "LeMat-GenBench: charge, distances, plausibility",
}


class InternalProtocol(Protocol):
    """The paper's internal evaluation.

    Args:
        potential: Evaluation potential, a name or one that is loaded.
        cell: Relax the lattice too (main-text tables); False keeps it fixed (the appendix's *Lattice fixed*).
        max_steps: Step budget.
        fmax: Force at which a relaxation ends, eV/Å.
        optimizer: Of the relaxation; "ase-bfgs" is the paper's, one by one.
        gate: "anchor" (the paper's), or "lemat".
        hull: Hull that counts.
        alex_mp: File of the Alex-MP reference: the paper's hull, in place of `hull`.
        device: Of the potential.
    """

    name = "internal"
    metric_list = (
        Metric("valid", "Valid", description="relaxed and passed the gate"),
        Metric("unique", "Unique", description="first of its reduced formula in sampling order, valid or no"),
        Metric("novel", "Novel", description="valid and ν > 0.5 against the reference alone"),
        Metric("metastable", "Meta", description="valid and E_hull ≤ 0.1 eV/atom"),
        Metric("stable", "Stable", description="valid and E_hull ≤ 0"),
        Metric("msun", "MSUN", description="metastable, unique and novel"),
        Metric("sun", "SUN", description="stable, unique and novel"),
        Metric("known", "Known", "count", None, description="valid with a formula of the reference"),
        Metric(
            "known_anywhere", "Known any", "count", None, description="… of the reference, MP or OQMD"
        ),
        Metric("new_msun", "New MSUN", "count", "high", description="MSUN with a formula known nowhere"),
        Metric("new_sun", "New SUN", "count", "high", description="SUN with a formula known nowhere"),
        Metric("bonds_ok", "Bond", description="relaxed structure passes the bond check", headline=False),
        Metric("charge_ok", "Charge", description="the cell as proposed can be neutral", headline=False),
        Metric("energy_above_hull", "E_hull", "value", "low", "eV/atom", "mean over valid, scored structures",
               headline=False),
        Metric("failed", "Failed", "percent", "low", description="not read, not realised or not relaxed",
               headline=False),
        Metric("not_scored", "Not scored", "percent", None, description="relaxed, but no hull for an element",
               headline=False),
        Metric("converged", "Converged", description="relaxation met fmax within its steps", headline=False),
        Metric("steps", "Steps", "value", None, "", "mean relaxation steps", headline=False),
    )  # fmt: skip

    def __init__(
        self,
        *,
        potential: str | Potential = DEFAULTS.potential,
        cell: bool = DEFAULTS.cell,
        max_steps: int = DEFAULTS.max_steps,
        fmax: float = DEFAULTS.fmax,
        optimizer: Optimizer = "quasi-newton",
        gate: GateName = "anchor",
        hull: Kind = "union",
        alex_mp: Path | None = None,
        device: str = "cpu",
    ) -> None:
        if gate not in GATES:
            raise InputError(f"'{gate}' is not a gate", nearest(gate, GATES))
        if hull not in get_args(Kind):
            raise InputError(f"there is no hull '{hull}'", nearest(hull, get_args(Kind)))
        if optimizer not in get_args(Optimizer):
            raise InputError(f"unknown optimizer '{optimizer}'", nearest(optimizer, get_args(Optimizer)))
        self._potential, self._hull, self._alex_mp, self._device = potential, hull, alex_mp, device
        self.cell, self.max_steps, self.fmax, self.optimizer = cell, max_steps, fmax, optimizer
        self.gate = gate
        self._lemat = LematGate() if gate == "lemat" else None

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
    def scorer(self) -> GroupScorer:
        """Bond thresholds, fixed novelty index and embedding, as in the paper's reward."""
        return make_scorer(Config(), self.reference)

    # The three passes

    def measure(self, crystals: Crystals) -> list[Row]:
        """Relax and place on the hull; chunks are fixed, so a crystal's numbers depend on its chunk only."""
        found = self.relax(
            crystals,
            self.potential,
            cell=self.cell,
            max_steps=self.max_steps,
            fmax=self.fmax,
            optimizer=self.optimizer,
        )
        ended = np.isin(found.status, ("converged", "capped")) & np.isfinite(found.energy)
        rows: list[Row] = []
        for i in range(len(crystals)):
            row: Row = {
                "relaxation": str(found.status[i]),
                "relaxation_steps": found.steps[i],
                "max_force_ev_per_angstrom": found.max_force[i],
                "energy_ev": found.energy[i] if ended[i] else np.nan,
                "status": "measured" if ended[i] else "failed",
                "reason": "",
            }
            if ended[i]:
                row[RELAXED] = found.crystals[i]
            else:
                row["reason"] = f"relaxation {found.status[i]}: {found.reason[i]}".removesuffix(": ")
            rows.append({name: plain(value) for name, value in row.items()})
        return self.place(rows)

    placing = ("hull", "hull_kind")

    def place(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with energies above this protocol's hull; the relaxed structures and energies stay."""
        there = [i for i, row in enumerate(rows) if RELAXED in row]
        energy = np.array([rows[i]["energy_ev"] for i in there], dtype=float)
        scores = self.hull.score(
            Crystals.concatenate(rows[i][RELAXED] for i in there),
            energy,
            checkpoint_hash=self.potential.checkpoint_hash,
        )
        columns = {
            "formation_energy_ev_per_atom": scores.formation_energy,
            "energy_above_hull_ev_per_atom": scores.energy_above_hull,
            **{f"energy_above_{kind}_hull_ev_per_atom": above for kind, above in scores.above.items()},
        }
        placed = [{**row, **dict.fromkeys(columns)} for row in rows]
        for k, i in enumerate(there):
            placed[i] |= {name: plain(values[k]) for name, values in columns.items()}
            placed[i] |= {"status": "measured", "reason": ""}
            if not np.isfinite(scores.energy_above_hull[k]):
                placed[i] |= {"status": "not scored", "reason": scores.status[k].removeprefix("not scored: ")}
        return placed

    def flag(
        self,
        rows: Sequence[Row],
        raw: Sequence[Crystals | None],  # noqa: ARG002 — the gate judges what is relaxed
        relaxed: Sequence[Crystals | None],
    ) -> list[Row]:
        """Gate, novelty, known formulas, and the paper's flags."""
        blank: Row = dict.fromkeys(LEMAT_COLUMNS if self._lemat else ())
        blank |= {"bonds_ok": None, "bond_ratio": None, "valid": False, "gate_reason": ""}
        blank |= {"novelty": None, "novelty_branch": None}
        flags: list[Row] = [
            {
                "charge_ok": ok,
                **blank,
                "known_in": ",".join(sorted(self.reference.known(row["formula"] or ""))),
            }
            for row, ok in zip(rows, charges(rows), strict=True)
        ]
        there = [i for i, crystal in enumerate(relaxed) if crystal is not None]
        crystals = Crystals.concatenate(crystal for crystal in relaxed if crystal is not None)
        if there:
            self._judge(crystals, there, rows, flags)
        tally = Tally(DEFAULTS.novel_above, DEFAULTS.metastable_below, DEFAULTS.stable_below)
        for row, flag in zip(rows, flags, strict=True):
            if row["formula"] is None:  # never read: not unique, not anything
                flag |= dict.fromkeys(FLAGS, False)
                continue
            energy = row.get("energy_above_hull_ev_per_atom")
            found = tally.add({**row, **flag, "energy_above_hull_ev_per_atom": energy})
            new = not flag["known_in"]  # a find known anywhere is never a headline
            flag |= found | {"new_msun": found["msun"] and new, "new_sun": found["sun"] and new}
        return [{name: plain(value) for name, value in flag.items()} for flag in flags]

    def _judge(self, crystals: Crystals, there: list[int], rows: Sequence[Row], flags: list[Row]) -> None:
        """Gate and novelty of the relaxed crystals of the rows `there`."""
        bonds = check_bonds(crystals, self.scorer.thresholds)
        embeddings = self.scorer.embed(crystals)
        checks = self._lemat.check(crystals) if self._lemat else None
        for place, i in enumerate(there):
            flag = flags[i]
            flag |= {"bonds_ok": bonds.ok[place], "bond_ratio": bonds.tightest[place]}
            if checks is not None:
                check = checks[place]
                parts = (check.charge_ok, check.distance_ok, check.plausibility_ok)
                flag |= dict(zip(LEMAT_COLUMNS, parts, strict=True))
                flag |= {"valid": check.valid, "gate_reason": "; ".join(check.reasons)}
            else:
                faults = [] if flag["charge_ok"] else ["not charge-neutral"]
                if not bonds.ok[place]:
                    a, b = (SYMBOLS[z] for z in bonds.pair[place])
                    faults.append(f"{a}–{b} at {bonds.tightest[place]:.2f} of the shortest allowed")
                flag |= {"valid": not faults, "gate_reason": "; ".join(faults)}
            if flag["valid"]:
                novelty = adaptive_novelty(rows[i]["formula"], embeddings[place], self.scorer.index, None)
                flag |= {"novelty": novelty.value, "novelty_branch": novelty.branch}

    def metrics(self, rows: Sequence[Row]) -> dict[str, Rate | Mean]:
        """Percentages of all rows; the mean energy is over valid, scored structures."""
        found: dict[str, Rate | Mean] = {name: Rate.of(row[name] for row in rows) for name in FLAGS}
        for name in ("bonds_ok", "charge_ok"):
            found[name] = Rate.of(row[name] for row in rows)
        found["energy_above_hull"] = Mean.of(
            row.get("energy_above_hull_ev_per_atom") for row in rows if row["valid"]
        )
        found["failed"] = Rate.of(row["status"] == "failed" for row in rows)
        found["not_scored"] = Rate.of(row["status"] == "not scored" for row in rows)
        found["converged"] = Rate.of(row.get("relaxation") == "converged" for row in rows)
        found["steps"] = Mean.of(row.get("relaxation_steps") for row in rows)
        return {metric.name: found[metric.name] for metric in self.metric_list}

    # What made the numbers

    def footer(self) -> dict[str, str]:
        if self._alex_mp is not None:
            hull = f"Alex-MP ({self._alex_mp.name}), MP2020 corrections"
        else:
            what = {
                "dft": "OQMD",
                "potential": self.potential.name,
                "oqmd": f"OQMD and {self.potential.name}",
                "mp": f"Materials Project and {self.potential.name}",
                "union": f"OQMD, Materials Project and {self.potential.name}",
            }
            hull = (
                f"{self._hull}: {what[self._hull]} on the bundled reference, {self.identity()['hull'][:12]}"
            )
        return {
            "label": self.name,
            "gate": GATES[self.gate],
            "potential": f"{self.potential.name} ({self.potential.checkpoint_hash[:12]})",
            "hull": hull,
            "relaxation": f"{'positions and cell' if self.cell else 'positions, lattice fixed'}, "
            f"{self.optimizer}, at most {self.max_steps} steps, fmax {self.fmax:g} eV/Å",
            "novelty": f"RDF against the bundled reference {self.reference.hash[:12]}, history off, "
            f"ν > {DEFAULTS.novel_above:g}; unique by reduced formula",
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


FLAGS = ("valid", "unique", "novel", "metastable", "stable", "msun", "sun", "known", "known_anywhere",
         "new_msun", "new_sun")  # fmt: skip
"""Yes-or-no columns that the rates count."""
LEMAT_COLUMNS = ("lemat_charge_ok", "lemat_distance_ok", "lemat_plausibility_ok")


def charges(rows: Sequence[Row]) -> list[bool | None]:
    """Whether each row's cell, as proposed or read, can be charge-neutral; None without a cell."""
    cells = [None if row["cell"] is None else parse_formula(row["cell"]) for row in rows]
    found: list[bool | None] = [None] * len(cells)
    narrow = [i for i, cell in enumerate(cells) if cell is not None and _is_action_like(cell)]
    batch = Compositions.from_list(cell for i in narrow if (cell := cells[i]) is not None)
    for i, ok in zip(narrow, check_charges(batch).tolist(), strict=True):
        found[i] = ok
    for i, cell in enumerate(cells):
        if cell is not None and found[i] is None:
            found[i] = _neutral(cell)
    return found


def _is_action_like(cell: Composition) -> bool:
    """Fits the fast test: at most four elements, all of the vocabulary."""
    return cell.k <= MAX_ELEMENTS and all(symbol in INDEX for symbol in cell.elements)


def _neutral(cell: Composition) -> bool:
    """The same test for any elements; of one formula unit where the cell is too large for it."""
    if cell.n_atoms > ASSIGNED_ATOMS:
        cell = parse_formula(cell.formula)
    return cell.n_atoms <= ASSIGNED_ATOMS and neutral_assignment(cell.elements, cell.counts) is not None
