"""Priors by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anchor.devices import usable_device
from anchor.errors import AnchorError, InputError, nearest
from anchor.own_code import imported
from anchor.priors.base import Prior

LEARNED = "anchor.priors.learned:load"


@dataclass(frozen=True)
class PriorEntry:
    """A prior that ships.

    Attributes:
        summary: One line.
        factory: 'module:callable' that makes it; the callable takes `device` and options as keywords.
        options: Keywords that belong to the name.
    """

    summary: str
    factory: str
    options: Mapping[str, Any] = field(default_factory=dict)


PRIORS: dict[str, PriorEntry] = {
    "templates": PriorEntry(
        "known prototypes of the train split with similar elements", "anchor.priors.templates:load"
    ),
    "templates-all": PriorEntry(
        "the same with all reference crystals as templates: the best guess, and not for tests on them",
        "anchor.priors.templates:load",
        {"split": "all"},
    ),
    "merged": PriorEntry(
        "known prototypes of simpler formulas: similar elements share a role and are ordered on its sites",
        "anchor.priors.merged:load",
    ),
    "merged-all": PriorEntry(
        "the same with all reference crystals, and templates-all where nothing can be merged",
        "anchor.priors.merged:load",
        {"split": "all", "fallback": "templates-all"},
    ),
    "random": PriorEntry("random crystals with random symmetry", "anchor.priors.random_crystals:load"),
    "wyckoff": PriorEntry(
        "learned symmetry: space group, Wyckoff positions, coordinates, cell, one after the other",
        LEARNED,
        {"weights": "wyckoff"},
    ),
    "omatg": PriorEntry("learned flow from random crystals (OMatG)", LEARNED, {"weights": "omatg"}),
    "kldm": PriorEntry("learned kinetic Langevin diffusion (KLDM)", LEARNED, {"weights": "kldm"}),
    "crystalite": PriorEntry(
        "learned diffusion with a transformer (Crystalite)",
        LEARNED,
        {"weights": "crystalite"},
    ),
    **{
        f"portfolio:{setting}": PriorEntry(
            f"templates, merged and learned priors propose, energies choose; {cost}",
            "anchor.priors.portfolio:load",
            {"setting": setting},
        )
        for setting, cost in (
            ("cheap", "costs little more than templates"),
            ("standard", "up to three times the cost of templates"),
            ("full", "as many as are of use"),
        )
    },
}
"""Every prior by the name people type. A new one is one more entry."""


def load_prior(name: str, *, device: str = "cpu", **options: Any) -> Prior:
    """A frozen prior by name, your own as 'package.module:factory', or one that you trained, by its file.

    Args:
        name: One of `PRIORS`, where to find a callable that takes `device` and `options`, or a
            .safetensors file of `anchor prior train`.
        device: cpu, cuda, cuda:1, mps.
        options: Settings of that prior, such as `temperature` of templates.
    """
    entry = PRIORS.get(name)
    if name.endswith(".safetensors"):
        entry = PriorEntry("weights in a file", LEARNED, {"weights": name})
    if entry is None and ":" not in name:
        raise InputError(f"unknown prior '{name}'", nearest(name, PRIORS))
    usable_device(device)
    factory = imported(name if entry is None else entry.factory, "prior")
    settings = {**(entry.options if entry else {}), **options}
    try:
        inspect.signature(factory).bind(device=device, **settings)
    except TypeError as error:
        raise InputError(f"the prior '{name}' does not take these settings: {error}") from None
    prior = factory(device=device, **settings)
    if not isinstance(prior, Prior):
        raise InputError(f"'{name}' made a {type(prior).__name__}, not an anchor.priors.Prior")
    if entry is not None:
        prior.name = name
    return prior


def is_learned(name: str) -> bool:
    """Whether a name stands for a trained network, which can be told its `fallback`."""
    entry = PRIORS.get(name)
    return name.endswith(".safetensors") or (entry is not None and entry.factory == LEARNED)


@dataclass(frozen=True)
class Availability:
    """Whether a prior can be used here and now; `reason` and `how_to_get` say why not and what to do."""

    ok: bool
    reason: str = ""
    how_to_get: str = ""


def prior_availability() -> dict[str, Availability]:
    """Whether each prior of `PRIORS` can be loaded here, by loading it."""
    states = {}
    for name in PRIORS:
        try:
            load_prior(name)
        except AnchorError as error:
            states[name] = Availability(False, error.message, error.hint or "")
        else:
            states[name] = Availability(True)
    return states
