"""What is compared: arms that differ in their corpus alone, each beside a control of as many steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anchor.errors import InputError, nearest

ARMS = {
    "relaxed": "reference and the campaign's cells as relaxed",
    "unrelaxed": "reference and the same cells as generated",
    "rendered": "reference and the same compositions made by another prior, relaxed",
    "scratch": "as relaxed, from random weights",
}
"""Arms of the paper by the name people type."""
CELLS = ("relaxed", "unrelaxed", "rendered")
"""Kinds of corpora."""
START, CONTROL, SCRATCH_CONTROL = "start", "control", "scratch-control"


@dataclass(frozen=True)
class Arm:
    """One training.

    Attributes:
        name: Of its folder and its row.
        about: What it is trained on, for people.
        corpus: File beside the reference; None: the reference alone.
        fresh: From random weights instead of finished ones.
        control: The arm it is compared with; None: it is one.
    """

    name: str
    about: str
    corpus: Path | None = None
    fresh: bool = False
    control: str | None = None


def check_arms(names: Sequence[str]) -> None:
    """Refuse what is no arm."""
    for name in names:
        if name not in ARMS:
            raise InputError(f"there is no arm '{name}'", nearest(name, ARMS))
    if not names:
        raise InputError("no arm is asked for", f"choose some of: {', '.join(ARMS)}")


def make_arms(names: Sequence[str], corpora: dict[str, Path]) -> list[Arm]:
    """Controls first, then the arms that were asked for.

    Args:
        names: Of `ARMS`.
        corpora: File of each kind of cells: relaxed, unrelaxed, rendered.
    """
    check_arms(names)
    arms = [Arm(CONTROL, "reference alone, as many steps")]
    if "scratch" in names:
        arms.append(Arm(SCRATCH_CONTROL, "reference alone, from random weights", fresh=True))
    for name in names:
        fresh = name == "scratch"
        corpus = corpora["relaxed" if fresh else name]
        arms.append(Arm(name, ARMS[name], corpus, fresh, SCRATCH_CONTROL if fresh else CONTROL))
    return arms
