"""The filling: phases that the databases lack or misplace, made under a potential, as competitors.

`anchor energies fill` makes them (`anchor.filling`). Here is what is left of that: a file of compositions,
energies and crystals, bound to the weights that gave the energies and to the reference it was made for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash, load_arrays, save_arrays
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.hull.calibration import Calibration
from anchor.hull.phases import Phases
from anchor.paths import BUNDLED, cache_dir
from anchor.writing import replace_file

Kind = Literal["filled", "listed"]
KINDS: tuple[Kind, ...] = ("filled", "listed")
"""Phases that no database lists, and phases that one lists with an energy but of which there is no crystal
here: the listed energy may be that of a wrong structure (TmF3 stands 0.35 eV/atom too high in both)."""
SOURCE = "filled"
"""Source of these phases in a decomposition."""
FRAC_SCALE = 2**16
"""Fractional coordinates are stored in units of 1/FRAC_SCALE: 0.0002 Å in a cell of 15 Å."""


@dataclass(frozen=True, eq=False)
class Filling:
    """Phases made under one potential.

    Attributes:
        crystals: Relaxed, one per phase; their compositions are the phases'.  # m
        energies: Of the potential, eV/atom.  # [m]
        spacegroup: International numbers.  # [m]
        identity: "potential", "checkpoint_hash", "reference_hash".
    """

    crystals: Crystals
    energies: NDArray[np.float64]
    spacegroup: NDArray[np.int64]
    identity: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.energies)

    @property
    def hash(self) -> str:
        """SHA-256 of what is stored."""
        return content_hash(self.arrays())

    def phases(self, calibration: Calibration) -> Phases:
        """The compounds on the scale of a calibration, without those whose elements it does not know."""
        amounts = self.crystals.compositions.amounts
        formation = calibration.formation_energy(amounts, self.energies)
        kept = np.flatnonzero(np.isfinite(formation))
        mappings = [{int(z): float(row[z]) for z in np.flatnonzero(row)} for row in amounts[kept]]
        return Phases.from_amounts(mappings, formation[kept], SOURCE)

    def arrays(self) -> dict[str, NDArray]:
        """What is stored; `from_arrays` reads it."""
        crystals = self.crystals
        return {
            "counts": crystals.counts.astype(np.uint8),
            "numbers": crystals.numbers.astype(np.uint8),
            "frac": (np.rint(crystals.frac * FRAC_SCALE).astype(np.int64) % FRAC_SCALE).astype(np.uint16),
            "lattice": crystals.lattice.astype(np.float32),
            "energy": self.energies.astype(np.float32),
            "spacegroup": self.spacegroup.astype(np.uint8),
            "identity": np.frombuffer(json.dumps(dict(self.identity), sort_keys=True).encode(), np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Filling:
        return cls(
            Crystals(arrays["counts"], arrays["numbers"], arrays["frac"] / FRAC_SCALE, arrays["lattice"]),
            arrays["energy"].astype(np.float64),
            arrays["spacegroup"].astype(np.int64),
            json.loads(arrays["identity"].tobytes()),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Filling]) -> Filling:
        """All phases of fillings with the same identity."""
        return cls(
            Crystals.concatenate([part.crystals for part in parts]),
            np.concatenate([part.energies for part in parts]),
            np.concatenate([part.spacegroup for part in parts]),
            parts[0].identity,
        )


def filling_path(potential: str, folder: Path, kind: Kind = "filled") -> Path:
    """File of a potential's filling in the package or the cache folder."""
    return folder / "energies" / f"{potential}.{kind}.npz"


def save_filling(path: Path, filling: Filling, card: Mapping[str, Any]) -> None:
    """Write the phases and beside them their card, which names their hash."""
    save_arrays(path, filling.arrays())
    full = {"hash": filling.hash, **filling.identity, **card}
    replace_file(path.with_suffix(".json"), json.dumps(full, indent=1, ensure_ascii=False) + "\n")


def load_filling(potential: str, *, checkpoint_hash: str, reference_hash: str) -> Filling | None:
    """What was filled for a potential: in the package, and by its user into the cache folder; None: nothing.

    Raises:
        AnchorError: A file was made with other weights or for another reference.
    """
    asked = {"potential": potential, "checkpoint_hash": checkpoint_hash, "reference_hash": reference_hash}
    parts = []
    for folder, kind in product((BUNDLED, cache_dir()), KINDS):
        path = filling_path(potential, folder, kind)
        if not path.is_file():
            continue
        found = Filling.from_arrays(load_arrays(path))
        if found.identity != asked:
            other = ", ".join(name for name, value in asked.items() if found.identity.get(name) != value)
            raise AnchorError(
                f"{path} was filled for another hull: {other} differ",
                f"delete it, or make it again: anchor energies fill --potential {potential}",
            )
        parts.append(found)
    return Filling.concatenate(parts) if parts else None
