"""Reference energies, corrections and the energy above hull."""

from anchor.hull.alex_mp import AlexMPHull, phases_from_entries, phases_from_file
from anchor.hull.calibration import Calibration
from anchor.hull.hull import Decomposition, Hull, HullIdentity
from anchor.hull.phases import Phases
from anchor.hull.references import HullScores, PotentialHull, load_hull
from anchor.hull.score import ScoredCrystals, score_crystals

__all__ = [
    "AlexMPHull",
    "Calibration",
    "Decomposition",
    "Hull",
    "HullIdentity",
    "HullScores",
    "Phases",
    "PotentialHull",
    "ScoredCrystals",
    "load_hull",
    "phases_from_entries",
    "phases_from_file",
    "score_crystals",
]
