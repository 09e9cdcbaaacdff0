"""What every structure prior p(x|c) is: given the atoms of a cell, crystals; frozen, batched, seeded.

    prior = load_prior("templates")
    prior.sample("Li2FeSiO4", n=4)             # a formula: the number of formula units is chosen
    prior.sample([{"Na": 2, "Cl": 2}], seed=7)  # compositions: the cell exactly as given

A new prior is one class with five attributes and one method, `draw`; see docs/priors.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.models.ddpo import Way
from anchor.priors.request import Request
from anchor.priors.units import with_units

One = str | Composition | Mapping[str, int]
Rounds = tuple[tuple[int, int], ...]
"""How one of several crystals is chosen: after so many steps so many stay (`Judge.contest`)."""
Query = One | Sequence[One] | Compositions


@dataclass(frozen=True, eq=False)
class Sampled:
    """Answers to requests: m crystals, at most as many as were asked for.

    Attributes:
        crystals: What was made.  # m
        request: Which request each answers, ascending.  # [m]
        made_by: Name of the prior that made it: the one that was asked, or its fallback.  # [m]
        missing: Requests without a crystal, and why.
        ways: How crystals were sampled, owned by their requests, of a prior that is asked to record it.
    """

    crystals: Crystals
    request: NDArray[np.int64]
    made_by: list[str]
    missing: dict[int, str] = field(default_factory=dict)
    ways: Sequence[Way] = ()

    def of(self, items: Sequence[int], n: int) -> Sampled:
        """Only the answers to some items of the query, of each of which n crystals were asked."""
        kept = np.flatnonzero(np.isin(self.request // n, list(items)))
        missing = {request: why for request, why in self.missing.items() if request // n in items}
        return Sampled(self.crystals[kept], self.request[kept], [self.made_by[i] for i in kept], missing)

    @classmethod
    def gather(
        cls,
        made: Mapping[int, tuple[Crystals, str]],
        missing: Mapping[int, str],
        ways: Sequence[Way] = (),
    ) -> Sampled:
        """From a crystal (a batch of one) and its maker for each request that has one."""
        order = sorted(made)
        return cls(
            Crystals.concatenate(made[i][0] for i in order),
            np.array(order, dtype=np.int64),
            [made[i][1] for i in order],
            dict(missing),
            ways,
        )

    def filled(self, requests: Sequence[Request], other: Prior) -> Sampled:
        """What is missing, answered by another prior as far as it can."""
        waiting = sorted(self.missing)
        answer = other.answer([requests[i] for i in waiting])
        made = dict(zip(self.request.tolist(), zip(self.crystals, self.made_by, strict=True), strict=True))
        late = zip(answer.crystals, answer.made_by, strict=True)
        made |= {waiting[k]: one for k, one in zip(answer.request.tolist(), late, strict=True)}
        missing = {waiting[k]: f"{self.missing[waiting[k]]}; {why}" for k, why in answer.missing.items()}
        return Sampled.gather(made, missing, self.ways)

    def complete(self) -> Crystals:
        """The crystals, one for every request.

        Raises:
            AnchorError: Some are missing.
        """
        if self.missing:
            asked, first = len(self.missing) + len(self.request), next(iter(self.missing.values()))
            raise AnchorError(
                f"{len(self.missing)} of {asked} crystals are missing: {first}",
                "give the prior a fallback, or take what there is from `realise`",
            )
        return self.crystals


class Prior(ABC):
    """A frozen distribution of crystals given a composition.

    Subclasses make no gradients and never change after construction: `hash` is the same after any use. Where
    something could change, weights above all, it is a property of what they are now.

    Attributes:
        name: What people type.
        elements: Atomic numbers it knows.
        max_atoms: Most atoms per cell.
        hash: Identity of everything that decides its crystals: weights, reference, settings.
        device: Where it computes.
        chooses_units: Whether `draw` accepts requests with `units=None`. If not, the number of formula units
            is chosen for it from the reference (`anchor.priors.units`).
        proposals: Crystals that a search asks of each composition at least, to choose one of them.
        rounds: How it chooses.
    """

    name: str
    elements: frozenset[int]
    max_atoms: int
    hash: str
    device: str = "cpu"
    chooses_units: ClassVar[bool] = False
    proposals: int = 1
    rounds: Rounds = ((0, 1),)

    @property
    def makers(self) -> frozenset[str]:
        """Names in `made_by` that are no fallback."""
        return frozenset({self.name})

    @abstractmethod
    def draw(self, requests: Sequence[Request]) -> Crystals | Sampled:
        """One crystal per request, in order; atoms in any order within a crystal.

        A prior that can fail, or lets another one answer, says so in a `Sampled`.
        """

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
        """n crystals per composition, none missing; see `realise`.

        Raises:
            AnchorError: The prior could not make one of them.
        """
        return self.realise(query, n, seed=seed, stream=stream, units=units, cell=cell).complete()

    def realise(
        self,
        query: Query,
        n: int = 1,
        *,
        seed: int = 0,
        stream: Sequence[str | int] = (),
        units: int | None = None,
        cell: Literal["given", "free"] | None = None,
        first: Sequence[tuple[str, int]] | None = None,
    ) -> Sampled:
        """n crystals per composition: all of the first composition, then all of the second, …

        Args:
            query: A formula, a composition ({"Na": 2, "Cl": 2}), or many of them.
            n: Crystals per composition.
            seed: Same seed, same crystals.
            stream: Names that tell this call's random numbers from others' under the same seed.
            units: Formula units per cell, for every composition.
            cell: "given": exactly the atoms as written; "free": the number of formula units is chosen. By
                default formulas (text) are free and compositions are given.
            first: Name of each composition in its random stream and number of its first draw, by default its
                position and 0. Asked again under the same name with later draws, a prior goes on.

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
            name, start = (position, 0) if first is None else first[position]
            for draw in range(start, start + n):
                request = Request(composition, chosen, draw, seed, (*stream, name))
                if chosen is None and not self.chooses_units:
                    request = with_units(request, self.max_atoms)
                requests.append(request)
        return self.answer(requests)

    def answer(self, requests: Sequence[Request]) -> Sampled:
        """`draw` without gradients, checked."""
        if not requests:
            return Sampled(Crystals.empty(), np.zeros(0, dtype=np.int64), [])
        with torch.no_grad():
            made = self.draw(requests)
        if isinstance(made, Crystals):
            made = Sampled(made, np.arange(len(made)), [self.name] * len(made))
        self._check_answer(requests, made)
        return made

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

    def _check_answer(self, requests: Sequence[Request], made: Sampled) -> None:
        """Every crystal holds the atoms asked for: a prior that breaks this would corrupt every result."""
        answered = sorted([*made.request.tolist(), *made.missing])
        if answered != list(range(len(requests))) or len(made.crystals) != len(made.request):
            raise AnchorError(
                f"the prior '{self.name}' made {len(made.crystals)} of {len(requests)} crystals"
            )
        offsets = made.crystals.offsets
        for i, number in enumerate(made.request.tolist()):
            request = requests[number]
            found = np.sort(made.crystals.numbers[offsets[i] : offsets[i + 1]])
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
