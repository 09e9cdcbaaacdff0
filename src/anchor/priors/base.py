"""What every structure prior p(x|c) is: given the atoms of a cell, crystals; frozen, batched, seeded.

    prior = load_prior("templates")
    prior.sample("Li2FeSiO4", n=4)             # a formula: the number of formula units is chosen
    prior.sample([{"Na": 2, "Cl": 2}], seed=7)  # compositions: the cell exactly as given

A new prior is one class with five attributes and one method, `draw`; see docs/priors.md.
"""

from __future__ import annotations

import importlib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, nearest
from anchor.random import generator, torch_generator

One = str | Composition | Mapping[str, int]
Query = One | Sequence[One] | Compositions


@dataclass(frozen=True)
class Request:
    """One crystal to be made. Nothing outside of it may influence the crystal, batch mates least of all.

    Attributes:
        composition: Atoms of the cell; of one formula unit when `units` is None.
        units: Formula units in the cell, or None where the prior is free to choose.
        draw: 0 for the first crystal asked of this composition, 1 for the second, … A prior that can rank may
            answer draw 0 with its best guess and later draws with different ones.
        seed: Seed of the whole call.
        stream: Names of the random stream of the call, then the position of the composition in it.
    """

    composition: Composition
    units: int | None
    draw: int
    seed: int
    stream: tuple[str | int, ...]

    def rng(self, *names: str | int) -> np.random.Generator:
        """Random numbers of this composition; add `self.draw` to the names for those of this crystal."""
        return generator(self.seed, "prior", *self.stream, *names)

    def torch_rng(self, *names: str | int, device: str | torch.device = "cpu") -> torch.Generator:
        """The same for torch."""
        return torch_generator(self.seed, "prior", *self.stream, *names, device=device)


class Prior(ABC):
    """A frozen distribution of crystals given a composition.

    Subclasses make no gradients and never change after construction: `hash` is the same after any use.

    Attributes:
        name: What people type.
        elements: Atomic numbers it knows.
        max_atoms: Most atoms per cell.
        hash: Identity of everything that decides its crystals: weights, reference, settings.
        device: Where it computes.
        chooses_units: Whether `draw` accepts requests with `units=None`. If not, the number of formula units
            is chosen for it from the reference (`anchor.priors.units`).
    """

    name: str
    elements: frozenset[int]
    max_atoms: int
    hash: str
    device: str = "cpu"
    chooses_units: ClassVar[bool] = False

    @abstractmethod
    def draw(self, requests: Sequence[Request]) -> Crystals:
        """One crystal per request, in order; atoms in any order within a crystal."""

    def sample(
        self,
        query: Query,
        n: int = 1,
        *,
        seed: int = 0,
        stream: Sequence[str | int] = (),
        units: int | None = None,
        cell: Literal["given", "free"] | None = None,
    ) -> Crystals:
        """n crystals per composition: all of the first composition, then all of the second, …

        Args:
            query: A formula, a composition ({"Na": 2, "Cl": 2}), or many of them.
            n: Crystals per composition.
            seed: Same seed, same crystals.
            stream: Names that tell this call's random numbers from others' under the same seed.
            units: Formula units per cell, for every composition.
            cell: "given": exactly the atoms as written; "free": the number of formula units is chosen. By
                default formulas (text) are free and compositions are given.

        Raises:
            InputError: An element the prior does not know, or more atoms than it can place.
        """
        if n < 0:
            raise InputError(f"{n=} crystals cannot be made", "ask for at least one")
        items = _as_list(query)
        requests = []
        for position, item in enumerate(items):
            free = isinstance(item, str) if cell is None else cell == "free"
            composition, chosen = _cell(_composition(item), units, free=free)
            self._refuse_unknown(composition, chosen)
            for draw in range(n):
                request = Request(composition, chosen, draw, seed, (*stream, position))
                if chosen is None and not self.chooses_units:
                    request = self._with_units(request)
                requests.append(request)
        if not requests:
            return Crystals.empty()
        with torch.no_grad():
            crystals = self.draw(requests)
        self._check_answer(requests, crystals)
        return crystals

    def knows(self, crystal: Crystals) -> bool:
        """Whether the prior could be asked for these atoms (a batch of one): elements and size."""
        return crystal.n_atoms <= self.max_atoms and self.elements.issuperset(crystal.numbers.tolist())

    def _refuse_unknown(self, composition: Composition, units: int | None) -> None:
        unknown = [symbol for symbol in composition.elements if NUMBER[symbol] not in self.elements]
        if unknown:
            raise InputError(
                f"the prior '{self.name}' does not know {', '.join(unknown)} (asked for {composition})",
                f"it knows {len(self.elements)} elements; train or choose another prior: anchor prior --help",
            )
        atoms = composition.n_atoms
        if atoms > self.max_atoms:
            what = "one formula unit of " if units is None else ""
            smaller = composition.formula if (units or 1) > 1 else None
            raise InputError(
                f"{what}{composition} has {atoms} atoms, the prior '{self.name}' places at most "
                f"{self.max_atoms}",
                f"ask for fewer formula units of {smaller}" if smaller else None,
            )

    def _with_units(self, request: Request) -> Request:
        from anchor.priors.units import choose_units

        units = choose_units(request, self.max_atoms)
        composition = Composition(
            request.composition.elements, tuple(c * units for c in request.composition.counts)
        )
        return Request(composition, units, request.draw, request.seed, request.stream)

    def _check_answer(self, requests: Sequence[Request], crystals: Crystals) -> None:
        """Every crystal holds the atoms asked for: a prior that breaks this would corrupt every result."""
        if len(crystals) != len(requests):
            raise AnchorError(f"the prior '{self.name}' made {len(crystals)} of {len(requests)} crystals")
        offsets = crystals.offsets
        for i, request in enumerate(requests):
            found = np.sort(crystals.numbers[offsets[i] : offsets[i + 1]])
            atoms = request.composition.numbers
            units = 1 if request.units is not None else len(found) // len(atoms)
            if not np.array_equal(found, np.sort(np.tile(atoms, max(units, 1)))):
                raise AnchorError(
                    f"the prior '{self.name}' answered {request.composition} with other atoms: {found}"
                )


def _as_list(query: Query) -> list[One]:
    if isinstance(query, (str, Composition, Mapping)):
        return [query]
    return list(query)


def _composition(item: One) -> Composition:
    if isinstance(item, Composition):
        return item
    if isinstance(item, str):
        return parse_formula(item)
    return Composition(tuple(item), tuple(item.values()))


def _cell(composition: Composition, units: int | None, *, free: bool) -> tuple[Composition, int | None]:
    """The atoms to place and the number of formula units they are (None: free, then of one unit)."""
    divisor = math.gcd(*composition.counts)
    if units is None and not free:
        return composition, divisor
    if units is not None and units < 1:
        raise InputError(f"{units} formula units cannot be placed", "ask for at least one")
    counts = tuple(c // divisor * (units or 1) for c in composition.counts)
    return Composition(composition.elements, counts), units


# Priors by name


@dataclass(frozen=True)
class Entry:
    """A prior that ships.

    Attributes:
        summary: One line.
        factory: 'module:callable' that makes it; the callable takes `device` and options as keywords.
        options: Keywords that belong to the name.
    """

    summary: str
    factory: str
    options: Mapping[str, Any] = field(default_factory=dict)


ENTRIES: dict[str, Entry] = {
    "templates": Entry(
        "known prototypes of the train split with similar elements", "anchor.priors.templates:load"
    ),
    "templates-all": Entry(
        "the same with all reference crystals as templates: the best guess, and not for tests on them",
        "anchor.priors.templates:load",
        {"split": "all"},
    ),
    "random": Entry("random crystals with random symmetry", "anchor.priors.random_crystals:load"),
    "wyckoff": Entry(
        "learned symmetry: space group, Wyckoff positions, coordinates, cell, one after the other",
        "anchor.priors.learned.prior:load",
        {"weights": "wyckoff"},
    ),
    "omatg": Entry(
        "learned flow from random crystals (OMatG)", "anchor.priors.learned.prior:load", {"weights": "omatg"}
    ),
    "kldm": Entry(
        "learned kinetic Langevin diffusion (KLDM)", "anchor.priors.learned.prior:load", {"weights": "kldm"}
    ),
    "crystalite": Entry(
        "learned diffusion with a transformer (Crystalite)",
        "anchor.priors.learned.prior:load",
        {"weights": "crystalite"},
    ),
}
"""Every prior by the name people type. A new one is one more entry."""


def load_prior(name: str, *, device: str = "cpu", **options: Any) -> Prior:
    """A frozen prior by name, your own as 'package.module:factory', or one that you trained, by its file.

    Args:
        name: One of `ENTRIES`, where to find a callable that takes `device` and `options`, or a
            .safetensors file of `anchor prior train`.
        device: cpu, cuda, cuda:1, mps.
        options: Settings of that prior, such as `temperature` of templates.
    """
    entry = ENTRIES.get(name)
    if name.endswith(".safetensors"):
        entry = Entry("weights in a file", "anchor.priors.learned.prior:load", {"weights": name})
    if entry is None and ":" not in name:
        raise InputError(f"unknown prior '{name}'", nearest(name, ENTRIES))
    factory = _find(name if entry is None else entry.factory)
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
    entry = ENTRIES.get(name)
    return name.endswith(".safetensors") or (entry is not None and "learned" in entry.factory)


def _find(place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"there is no prior '{place}': {error}", f"known by name: {', '.join(ENTRIES)}"
        ) from None


@dataclass(frozen=True)
class Availability:
    """Whether a prior can be used here and now; `reason` and `how_to_get` say why not and what to do."""

    ok: bool
    reason: str = ""
    how_to_get: str = ""


def prior_availability() -> dict[str, Availability]:
    """Whether each prior of `ENTRIES` can be loaded here, by loading it."""
    states = {}
    for name in ENTRIES:
        try:
            load_prior(name)
        except AnchorError as error:
            states[name] = Availability(False, error.message, error.hint or "")
        else:
            states[name] = Availability(True)
    return states
