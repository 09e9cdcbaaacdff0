"""A matcher that never returns for small cells, in a module that worker processes can import."""

from __future__ import annotations

import time

from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Structure


class HangingMatcher:
    """pymatgen's matcher, but it hangs where the first structure's cell is smaller than `volume` Å³."""

    def __init__(self, volume: float) -> None:
        self.volume = volume

    def fit(self, first: Structure, second: Structure) -> bool:
        if first.volume < self.volume:
            time.sleep(3600)
        return bool(StructureMatcher().fit(first, second))
