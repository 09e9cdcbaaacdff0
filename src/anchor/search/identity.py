"""What decides a campaign's numbers beside its config and data: the code, as one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import anchor

DECIDES = (
    "arrays.py", "chemistry", "config.py", "crystals", "executors", "gates", "generators", "hull", "matching",
    "models", "outcomes", "policy", "potentials", "priors", "random.py", "reference", "relax", "reward",
    "screening", "search/adaptive.py", "search/ahead.py", "search/campaign.py", "search/environment.py",
    "search/heard.py",
    "search/imagining.py", "search/prior_learner.py", "search/realise.py", "search/screened.py", "weights.py",
)  # fmt: skip
"""Files and folders that a candidate's numbers go through. A new page, report or command is none of them."""


def code_hash(root: Path | None = None, *, also: Sequence[str] = ()) -> str:
    """SHA-256 over the Python files that decide a campaign's numbers, and those of further folders."""
    digest = hashlib.sha256()
    root = Path(anchor.__file__).parent if root is None else root
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if any(place == part or place.startswith(f"{part}/") for part in (*DECIDES, *also)):
            digest.update(place.encode() + path.read_bytes())
    return digest.hexdigest()
