"""Ledgers of campaigns that nobody ran: rows by hand, with crystals that are real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pymatgen.core import Lattice, Structure

from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
from anchor.search.finds import EACH
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal
from anchor.search.tables import candidates, finds

NOBODY = {"name": "nobody", "hash": "0"}
"""A potential that does not exist: there are no hulls to draw."""


def rock_salt(cation: str, anion: str, a: float) -> Structure:
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(a), [cation, anion], [[0, 0, 0], [0.5] * 3])


def delafossite(alkali: str, metal: str, anion: str) -> Structure:
    """KYSe2 and its kin: layers of metal octahedra, alkali atoms between them."""
    lattice = Lattice.hexagonal(4.16, 22.7)
    places = [[0, 0, 0.5], [0, 0, 0], [0, 0, 0.2663]]
    return Structure.from_spacegroup("R-3m", lattice, [alkali, metal, anion], places)


def bytes_of(structure: Structure) -> bytes:
    return encode_crystal(Crystals.from_structures(structure))


def candidate(number: int, structure: Structure, above: float, **more: Any) -> dict[str, Any]:
    """A row of the ledger; `more` changes columns."""
    values: dict[str, Any] = dict.fromkeys(column.name for column in candidates.c)
    formula = structure.composition.reduced_formula
    return values | {
        "id": number, "step": 0, "group_index": 0, "member": number, "formula": formula, "cell": formula,
        "n_elements": len(structure.composition), "n_atoms": len(structure), "valid": True, "included": True,
        "status": "scored", "reason": "", "known_in": "", "own_objectives": {}, "novelty": 0.75,
        "novelty_branch": "bootstrap", "stability": 1.0, "reward": 1.5, "count_bonus": 1.0, "charge_ok": True,
        "relaxation": "converged", "relaxed": bytes_of(structure), "thin": "", "holes": "",
        "phases_known": "OQMD 1, Materials Project 2", "energy_ev": -4.0 * len(structure),
        "evaluations": 5, ABOVE: above, EACH: {"oqmd": above - 0.01, "mp": above, "union": above}, **more,
    }  # fmt: skip


def find(number: int, structure: Structure, above: float, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(column.name for column in finds.c)
    return values | {
        "candidate": number, "crystal": bytes_of(structure), "spacegroup": "Fm-3m", "spacegroup_number": 225,
        "relaxation": "converged", "bonds_ok": True, "valid": True, "energy_ev": -4.0 * len(structure),
        ABOVE: above, ABOVE_WITH_FINDS: above, EACH: {"oqmd": above - 0.01, "mp": above, "union": above},
        "novelty_reference": 0.75, "suspicious": False, "depth_percentile": 50.0, **more,
    }  # fmt: skip


def verdict(row: dict[str, Any], level: int, passed: bool | None, **more: Any) -> dict[str, Any]:
    """On the find of `row`."""
    return {
        "candidate": row["candidate"], "level": level, "key": f"{row['candidate']}/{level}",
        "origin": decode_crystal(row["crystal"]).hash, "passed": passed, "reason": f"said at level {level}",
        "evidence": {}, "crystal": None, "replaced": None, "cpu_seconds": 0.1, **more,
    }  # fmt: skip


def write_ledger(
    folder: Path, rows: list[dict[str, Any]], refined: list[dict[str, Any]], *settings: str,
    potential: dict[str, str] = NOBODY,
) -> Ledger:  # fmt: skip
    """A campaign of one step; without rows of none."""
    config = load_config(overrides=settings).config.model_dump(mode="json")
    identity = {
        "anchor": "0", "reference": "r", "hull": "h", "code": "c", "threads": 1, "potential": potential,
        "prior": {"name": "by-hand", "hash": "q"},
    }  # fmt: skip
    ledger = Ledger.create(folder, config, identity, "2026-01-01T00:00:00+00:00")
    step = {
        "step": 0, "structures": len(rows), "contexts": [], "metrics": {},
        "seconds": {"prior": 1.0, "relaxation": 9.0},
    }  # fmt: skip
    if rows:
        ledger.commit_step(step, rows, b"", keep=False)
        ledger.store_finds(refined)
    return ledger


def told_apart(folder: Path, potential: dict[str, str] = NOBODY) -> Ledger:
    """A find at level 3, one not refined, then a near, a far, a deep, a broken and a known one."""
    kyse2, nase = delafossite("K", "Y", "Se"), rock_salt("Na", "Se", 6.0)
    structures = [
        (kyse2, -0.1, {}), (rock_salt("Rb", "S", 6.5), -0.02, {"thin": "no compound of the system"}),
        (nase, 0.05, {}), (rock_salt("Li", "Te", 6.1), 0.4, {}), (rock_salt("Cs", "O", 6.2), -0.9, {}),
        (rock_salt("Na", "Te", 6.4), -0.03, {}), (rock_salt("Na", "Cl", 5.6), -0.01, {"known_in": "icsd,mp"}),
    ]  # fmt: skip
    rows = [candidate(i, s, above, **more) for i, (s, above, more) in enumerate(structures)]
    refined = [
        find(0, kyse2, -0.12, spacegroup="R-3m", spacegroup_number=166),
        find(4, structures[4][0], -0.95, suspicious=True, depth_percentile=99.7),
        find(5, structures[5][0], -0.03, **{ABOVE_WITH_FINDS: 0.02}),
        find(6, structures[6][0], -0.01, space_group_known=True),
    ]
    ledger = write_ledger(folder, rows, refined, "policy.source=screened", potential=potential)
    agreed = {
        "above_ev_per_atom": {"chgnet": -0.11, "sevennet-0": -0.09}, "agree": [2, 2], "no_answer": {},
    }  # fmt: skip
    decomposed = {"decomposition": {"oqmd": "0.5 K2Se + 0.5 Y2Se3", "mp": "0.5 K2Se + 0.5 Y2Se3"}}
    ledger.store_verdicts(
        [
            verdict(refined[0], 1, True, evidence=decomposed),
            verdict(refined[0], 2, True),
            verdict(refined[0], 3, True, evidence=agreed),
            verdict(refined[2], 1, False, reason="above the hull with the other finds on it"),
        ]
    )
    return ledger
