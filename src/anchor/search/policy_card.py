"""The policy of a campaign as a file of its own, with a card that says where it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchor.errors import InputError
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.policy import weights
from anchor.reading import read_json
from anchor.search.ledger import Ledger
from anchor.search.policies import TrainedPolicy, policy_file, policy_of
from anchor.weights import write_json
from anchor.writing import check_place, replace_file

BINS = 16
"""Points of the curve on the card."""


def check_policy_place(out: Path, *, overwrite: bool = False) -> None:
    """Refuse a place for a policy and its card where something is, or nothing can be."""
    if out.suffix != ".safetensors":
        raise InputError(f"{out} must end with .safetensors", "its card goes beside it, as .json")
    for path in (out, out.with_suffix(".json")):
        check_place(path, overwrite=overwrite)


def write_policy(trained: TrainedPolicy, out: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    """Write a policy (.safetensors) and its card (.json beside it): `card`, its hash and its settings."""
    data = weights.save(trained.network, settings=trained.settings())
    complete = {**card, "sha256": hashlib.sha256(data).hexdigest(), **trained.settings()}
    replace_file(out, data)
    write_json(out.with_suffix(".json"), complete)
    return complete


def save_policy(ledger: Ledger, out: Path, *, command: str) -> dict[str, Any]:
    """Write a campaign's latest policy (.safetensors) and its card (.json beside it); returns the card.

    What is there is replaced: `check_policy_place` asks before.
    """
    trained = policy_of(ledger)
    config = trained.config
    rows = list(ledger.rows(TALLY_COLUMNS))
    total, curve, size = Tally(), [], -(-len(rows) // BINS)
    for first in range(0, len(rows), size):
        before = dict(total.counts)
        total.add_all(rows[first : first + size])
        gained = {name: total.counts[name] - before[name] for name in ("valid", "metastable", "msun", "sun")}
        curve.append({"structures": total.proposed, "n": total.proposed - first, **gained})
    card = {
        "command": command,
        "what": "composition policy after a campaign of real relaxations",
        "seed": config.run.seed,
        "identity": ledger.identity,
        "proposed": total.proposed,
        "counts": total.counts,
        "curve": curve,
        "started_from": _parent(config.policy.start_from),
    }
    return write_policy(trained, out, card)


def _parent(start_from: str | None) -> dict[str, Any] | None:
    """Hash and card of the policy a campaign started from, None if it started untrained."""
    if start_from is None:
        return None
    path = policy_file(start_from)
    card = path.with_suffix(".json")
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "card": read_json(card) if card.is_file() else None,
    }
