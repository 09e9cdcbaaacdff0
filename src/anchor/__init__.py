"""anchor: search composition space for new stable crystals over a frozen structure prior.

The names below load when they are first used, so that `import anchor` costs nothing. For everyday use there
is a function for each thing people do (`anchor.api`):

    anchor.relax(structure)   anchor.energy_above_hull("*.cif")   anchor.predict("Li2FeSiO4")
    anchor.search(elements="Na Mn P O", n=500)   anchor.evaluate(structures, out="eval/mine")
    anchor.verify(structures)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Campaign": "anchor.search.campaign",
    "Crystals": "anchor.crystals.crystals",
    "energy_above_hull": "anchor.api",
    "load_campaign": "anchor.api",
    "load_config": "anchor.config",
    "load_hull": "anchor.hull",
    "load_potential": "anchor.potentials",
    "load_prior": "anchor.priors",
    "load_reference": "anchor.reference.reference",
    "predict": "anchor.api",
}
_ROOMS = ("evaluate", "relax", "search", "verify")
"""Folders that can be called: `anchor.calling`."""
__all__ = [
    "Campaign",
    "Crystals",
    "__version__",
    "energy_above_hull",
    "evaluate",
    "load_campaign",
    "load_config",
    "load_hull",
    "load_potential",
    "load_prior",
    "load_reference",
    "predict",
    "relax",
    "search",
    "verify",
]

if TYPE_CHECKING:
    from anchor import evaluate, relax, search, verify
    from anchor.api import energy_above_hull, load_campaign, predict
    from anchor.config import load_config
    from anchor.crystals.crystals import Crystals
    from anchor.hull import load_hull
    from anchor.potentials import load_potential
    from anchor.priors import load_prior
    from anchor.reference.reference import load_reference
    from anchor.search.campaign import Campaign


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"anchor.{name}")
    raise AttributeError(f"module 'anchor' has no attribute '{name}'")
