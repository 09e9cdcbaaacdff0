"""The policy of a campaign as a file of its own, with a card that says where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.policy import weights
from anchor.search.ledger import Ledger
from anchor.search.policies import TrainedPolicy, policy_file, policy_of
from anchor.weights import write_json

BINS = 16
"""Points of the curve on the card."""


def write_policy(trained: TrainedPolicy, out: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    """Write a policy (.safetensors) and its card (.json beside it): `card`, its hash and its settings."""
    data = weights.save(trained.network, settings=trained.settings())
    complete = {**card, "sha256": hashlib.sha256(data).hexdigest(), **trained.settings()}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(data)
    write_json(out.with_suffix(".json"), complete)
    return complete


def save_policy(ledger: Ledger, out: Path, *, command: str) -> dict[str, Any]:
    """Write a campaign's latest policy (.safetensors) and its card (.json beside it); returns the card."""
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
        "card": json.loads(card.read_text()) if card.is_file() else None,
    }
