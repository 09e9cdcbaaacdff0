"""What a gate is: relaxed crystals in, valid or not out, with reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What a gate says about n crystals.

    Attributes:
        ok: Valid.  # [n]
        reason: Why not, '' for a valid one.  # n
        columns: What it found, by the name of the column.  # [n] each
    """

    ok: NDArray[np.bool_]
    reason: list[str]
    columns: dict[str, Any] = field(default_factory=dict)


class Gate(Protocol):
    """Decides which crystals are valid."""

    @property
    def label(self) -> str:
        """One line for footers."""

    def verdicts(self, crystals: Crystals, contacts: Contacts) -> Verdicts:
        """Judge crystals.

        Args:
            crystals: Relaxed, with finite coordinates.  # n
            contacts: Of these crystals, self images included: computed once for everyone.
        """
