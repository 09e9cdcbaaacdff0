"""A ledger with made-up candidates, for what reads ledgers only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.outcomes.columns import ABOVE
from anchor.search.ledger import Ledger, encode_crystal
from anchor.search.tables import candidates

IDENTITY = {
    "anchor": "0", "reference": "r", "hull": "h", "code": "c", "threads": 1,
    "potential": {"name": "p", "hash": "p"}, "prior": {"name": "q", "hash": "q"},
}  # fmt: skip


def caesium_chloride(a: int, b: int, length: float = 4.0) -> Crystals:
    """Two atoms, one in the middle of a cube, Å."""
    frac = np.array([[0, 0, 0], [0.5] * 3])
    return Crystals(np.array([2]), np.array([a, b]), frac, length * np.eye(3)[None])


def candidate(number: int, relaxed: Crystals, above: float = 0.0, **more: Any) -> dict[str, Any]:
    """A valid one; its cell as generated is 5 % longer."""
    values: dict[str, Any] = dict.fromkeys(column.name for column in candidates.c)
    generated = Crystals(relaxed.counts, relaxed.numbers, relaxed.frac, 1.05 * relaxed.lattice)
    (formula,) = relaxed.formulas
    return values | {
        "id": number, "step": 0, "group_index": 0, "member": number, "formula": formula, "cell": formula,
        "n_elements": 2, "n_atoms": relaxed.n_atoms, "valid": True, "included": True, "status": "scored",
        "reason": "", "known_in": "", "own_objectives": {}, "generated": encode_crystal(generated),
        "relaxed": encode_crystal(relaxed), ABOVE: above, **more,
    }  # fmt: skip


def small_ledger(folder: Path, rows: Sequence[dict[str, Any]], settings: Sequence[str] = ()) -> Ledger:
    config = load_config(overrides=["policy.source=neutral", *settings]).config.model_dump(mode="json")
    ledger = Ledger.create(folder, config, IDENTITY, "2026-01-01T00:00:00+00:00")
    step = {"step": 0, "structures": len(rows), "contexts": [], "metrics": {}, "seconds": {}}
    ledger.commit_step(step, rows, b"", keep=False)
    return ledger
