"""Reference energies, corrections and the energy above hull."""

from anchor.hull.alex_mp import AlexMPHull, phases_from_entries, phases_from_file
from anchor.hull.calibration import Calibration
from anchor.hull.hull import Decomposition, Hull, HullIdentity
from anchor.hull.phases import Phases
from anchor.hull.references import HullScores, PotentialHull, load_hull

__all__ = [
    "AlexMPHull",
    "Calibration",
    "Decomposition",
    "Hull",
    "HullIdentity",
    "HullScores",
    "Phases",
    "PotentialHull",
    "load_hull",
    "phases_from_entries",
    "phases_from_file",
]
