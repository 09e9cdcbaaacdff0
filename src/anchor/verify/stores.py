"""Where verdicts are kept: in the ledger of a campaign, or as JSON files in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, EACH, ENERGY, FORMATION
from anchor.reading import read_json
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.oracle import gather
from anchor.writing import replace_file, safe_name


class Store(Protocol):
    """Keeps verdicts under the claim's id and the level; a key says what each depends on."""

    def get(self, claim: Claim, level: int, key: str) -> Verdict | None:
        """The verdict on a claim, if it was made with this key."""

    def put(self, made: Sequence[tuple[str, str, Verdict]], context: Context) -> None:
        """Keep verdicts, each with its key and the hash of the crystal that claimed first."""


class NoStore:
    """Keeps nothing: every verdict is made anew."""

    def get(self, claim: Claim, level: int, key: str) -> Verdict | None:  # noqa: ARG002
        return None

    def put(self, made: Sequence[tuple[str, str, Verdict]], context: Context) -> None:
        pass


class LedgerStore:
    """The table `verdicts` of a campaign's ledger; ids of claims are those of candidates."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows = {(str(row["candidate"]), row["level"]): row for row in ledger.verdict_rows()}

    def get(self, claim: Claim, level: int, key: str) -> Verdict | None:
        row = self._rows.get((claim.id, level))
        if row is None or row["key"] != key:
            return None
        crystal = None if row["crystal"] is None else decode_crystal(row["crystal"])
        return _verdict(claim, row, crystal)

    def put(self, made: Sequence[tuple[str, str, Verdict]], context: Context) -> None:
        rows = []
        for key, origin, verdict in made:
            row = _row(key, origin, verdict, context)
            other = verdict.replacement
            row["crystal"] = None if other is None else encode_crystal(other.crystal)
            rows.append({"candidate": int(verdict.claim), **row})
        self._ledger.store_verdicts(rows)
        self._rows |= {(str(row["candidate"]), row["level"]): row for row in rows}


class FolderStore:
    """One JSON file per claim and level."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, claim: Claim, level: int, key: str) -> Verdict | None:
        path = self._path(claim.id, level)
        if not path.is_file():
            return None
        row = read_json(path, hint="delete it: its level is made again")
        if row["key"] != key:
            return None
        stored = row["crystal"]
        crystal = None
        if stored is not None:
            numbers, frac, lattice = (np.array(stored[name]) for name in ("numbers", "frac", "lattice"))
            crystal = Crystals(np.array([len(numbers)]), numbers, frac, lattice)
        return _verdict(claim, row, crystal)

    def put(self, made: Sequence[tuple[str, str, Verdict]], context: Context) -> None:
        for key, origin, verdict in made:
            row = {"claim": verdict.claim, **_row(key, origin, verdict, context), "crystal": None}
            if verdict.replacement is not None:
                crystal = verdict.replacement.crystal
                row["crystal"] = {
                    "numbers": crystal.numbers.tolist(),
                    "frac": crystal.frac.tolist(),
                    "lattice": crystal.lattice[0].tolist(),
                }
            text = json.dumps(row, indent=1, ensure_ascii=False) + "\n"
            replace_file(self._path(verdict.claim, verdict.level), text)

    def _path(self, claim: str, level: int) -> Path:
        return self._folder / f"{safe_name(claim)}-level-{level}.json"


def _row(key: str, origin: str, verdict: Verdict, context: Context) -> dict[str, Any]:
    """Plain values of a verdict, all but the crystal."""
    return {
        "level": verdict.level,
        "key": key,
        "origin": origin,
        "passed": verdict.passed,
        "reason": verdict.reason,
        "evidence": dict(verdict.evidence),
        "replaced": None if verdict.replacement is None else find_columns(verdict.replacement, context),
        "cpu_seconds": verdict.cpu_seconds or 0.0,
    }


def find_columns(claim: Claim, context: Context) -> dict[str, Any]:
    """Columns of a find (as `anchor.search.finds` has them) that the claim's crystal decides."""
    (facts,) = gather([claim], context)
    formation = context.hull.calibration.formation_energy(
        claim.crystal.compositions.amounts, np.array([claim.energy])
    )
    return {
        ENERGY: claim.energy * claim.crystal.n_atoms,
        FORMATION: float(formation[0]),
        ABOVE: claim.above_hull,
        EACH: dict(claim.above),
        ABOVE_WITH_FINDS: facts.with_finds,
        "depth_percentile": facts.belief and facts.belief.percentile,
        "suspicious": facts.belief and facts.belief.suspicious,
        "spacegroup": facts.symbol,
        "spacegroup_number": facts.number,
        "space_group_known": facts.listed,
        "limit": claim.limit,
    }


def _verdict(claim: Claim, row: Mapping[str, Any], crystal: Crystals | None) -> Verdict:
    moved = None
    if crystal is not None:
        stored = row["replaced"]
        moved = claim.moved(crystal, stored[ENERGY] / crystal.n_atoms, stored[EACH])
        moved = replace(moved, limit=stored["limit"])
    return Verdict(
        claim.id, row["level"], row["passed"], row["reason"], row["evidence"], moved, row["cpu_seconds"]
    )
