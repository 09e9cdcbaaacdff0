"""A folder as `anchor serve` shows it, made in a moment: campaigns of crystals of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from anchor.catalogue.catalogue import Catalogue, Entry, load_catalogue
from anchor.config import Config
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, FORMATION
from anchor.search.ledger import Ledger, encode_crystal
from anchor.search.tables import candidates, finds

TOKEN = "a-token-of-tests"
PER_STEP = 32
IDENTITY = {
    "anchor": "0.1.0",
    "code": "0" * 64,
    "reference": "1" * 64,
    "prior": {"name": "templates", "hash": "2" * 64},
    "potential": {"name": "mattersim-1m", "hash": "3" * 64},
    "hull": "4" * 64,
    "threads": 1,
}


@dataclass(frozen=True)
class Page:
    """A page that is served: its address, and its app."""

    base: str
    app: Any

    @property
    def address(self) -> str:
        return f"{self.base}/#token={TOKEN}"


def some_entries() -> Catalogue:
    """A catalogue of 60 entries: OPTIMADE's validator asks a great deal."""
    return load_catalogue().take(np.arange(60))


def make_campaign(
    folder: Path, n: int = 64, *, refined: int = 4, budget: int | None = None, per_step: int = PER_STEP
) -> Ledger:
    """A campaign with `n` candidates, every eighth of them invalid, the first valid ones refined."""
    config = Config().model_dump(mode="json")
    config["run"]["structures"] = budget or n
    ledger = Ledger.create(folder, config, IDENTITY, "2026-01-01T00:00:00+00:00")
    add_candidates(ledger, n, per_step)
    rows = [row for row in ledger.rows(limit=4 * refined + 1) if row["valid"]][:refined]
    ledger.store_finds([find_of(row) for row in rows])
    return ledger


def add_candidates(ledger: Ledger, n: int, per_step: int = PER_STEP) -> None:
    """Further steps, as a search would store them."""
    first, step = ledger.n_candidates, ledger.n_steps
    while n > 0:
        size = min(n, per_step)
        rows = [_candidate(first + i, step, i) for i in range(size)]
        seconds = {"policy": 0.1, "prior": 0.2, "relaxation": 2.0, "potential": 1.5, "hull": 0.1}
        metrics = {"entropy_fraction": 0.7, "beta": 0.1, "beta_scheduled": 0.1}
        summary = {"step": step, "structures": first + size, "contexts": [], "metrics": metrics}
        ledger.commit_step({**summary, "seconds": seconds}, rows, b"", keep=False)
        first, step, n = first + size, step + 1, n - size


@cache
def _entry(number: int) -> Entry:
    return load_catalogue()[number]


@cache
def _content(number: int) -> bytes:
    return encode_crystal(_entry(number).crystal)


def _candidate(number: int, step: int, member: int) -> dict[str, Any]:
    place = number % len(load_catalogue())
    entry, content = _entry(place), _content(place)
    valid = number % 8 != 7
    draw = np.random.default_rng(number).random(3)
    row = dict.fromkeys(candidates.c.keys())
    return row | {
        "id": number,
        "step": step,
        "group_index": 0,
        "member": member,
        "formula": entry.formula,
        "cell": entry.formula,
        "n_elements": len(set(entry.crystal.numbers.tolist())),
        "n_atoms": entry.crystal.n_atoms,
        "log_probs": {},
        "charge_ok": True,
        "bonds_ok": valid,
        "valid": valid,
        "included": True,
        "status": "scored" if valid else "invalid",
        "reason": "" if valid else "a bond is too short",
        "made_by": "templates",
        "generated": content,
        "relaxed": content,
        "energy_ev": -4.0 * entry.crystal.n_atoms,
        "relaxation": "converged",
        "relaxation_steps": 5,
        "evaluations": 6,
        FORMATION: entry.formation_energy,
        ABOVE: float(entry.above_hull + 0.2 * draw[0]),
        "energy_above_each_hull_ev_per_atom": {**entry.above, "union": entry.above_hull},
        "stability": 0.9,
        "novelty": float(draw[1]),
        "novelty_reference": float(draw[1]),
        "novelty_branch": "reference",
        "d_struct": 0.5,
        "d_comp": 0.5,
        "own_objectives": {},
        "n_f": 1,
        "count_bonus": 1.0,
        "reward": float(1 + draw[2]),
        "advantage": 0.0,
        "known_in": "" if number % 5 else "mp",
        "thin": entry.thin,
        "holes": "",
    }


def find_of(row: dict[str, Any]) -> dict[str, Any]:
    place = row["id"] % len(load_catalogue())
    entry = _entry(place)
    return dict.fromkeys(finds.c.keys()) | {
        "candidate": row["id"],
        "crystal": _content(place),
        "spacegroup": entry.spacegroup,
        "spacegroup_number": 1,
        "relaxation": "converged",
        "energy_ev": row["energy_ev"],
        FORMATION: entry.formation_energy,
        ABOVE: entry.above_hull,
        "energy_above_each_hull_ev_per_atom": {**entry.above, "union": entry.above_hull},
        ABOVE_WITH_FINDS: entry.above_with_finds,
        "suspicious": False,
        "bonds_ok": True,
        "valid": True,
        "novelty_reference": 0.75,
    }
