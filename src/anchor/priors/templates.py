"""Template prior: known crystals of the same stoichiometry with their elements replaced by similar ones.

For a composition, every reference crystal of its stoichiometry votes for its prototype, with each way of
putting the new elements into its roles, by exp(−dissimilarity) (`anchor.priors.similarity`). Prototypes are
tried in the order of their votes; each is represented by its nearest member, scaled to the volume the new
elements should take. Where no reference crystal fits the cell: supercells of smaller ones, then crystals of a
similar stoichiometry, then random symmetric crystals (`anchor.priors.fallbacks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.priors.base import Prior
from anchor.priors.fallbacks import NearbyStoichiometries
from anchor.priors.fitted import Fitted, load_fitted
from anchor.priors.overlaps import make_room, shortest_bonds
from anchor.priors.prototypes import role_permutations
from anchor.priors.request import Request
from anchor.priors.similarity import Similarity
from anchor.priors.supercells import supercell
from anchor.priors.units import Stoichiometry, anonymous, of_split
from anchor.reference.reference import Reference, load_reference

MAX_ATOMS = 20


@dataclass(frozen=True, eq=False)
class Shelf:
    """All m templates of one stoichiometry.

    Attributes:
        crystal: Index into the reference.  # [m]
        roles: Atomic numbers, role by role.  # [m, k]
        units: Formula units.  # [m]
        bonus: Log-weight of each template, 0 on the hull.  # [m]
        candidate: For each permutation and template, the number of the (prototype, assignment) it stands for:
            permutations that a symmetry of the prototype connects give one crystal.  # [p, m]
    """

    crystal: NDArray[np.int64]
    roles: NDArray[np.int64]
    units: NDArray[np.int64]
    bonus: NDArray[np.float32]
    candidate: NDArray[np.int64]


@dataclass(frozen=True)
class Choice:
    """One way to build a crystal.

    Attributes:
        crystal: Template: index into the reference.
        replace: The element (atomic number) for each of its elements.
        probability: Share of its prototype in all votes.
        votes: Logarithm of the votes for its prototype.
    """

    crystal: int
    replace: dict[int, int]
    probability: float
    votes: float


class TemplatePrior(Prior):
    """Retrieval, substitution and scaling. See the module's docstring.

    Args:
        split: Which reference crystals serve as templates: "train", or "all" for the best guess at anything.
        temperature: 0: prototypes strictly by votes, the same first answer for every seed. Above: ranked
            after adding Gumbel noise of this size to the log-votes; 1 draws in proportion to the votes. The
            default lets near ties vary from call to call and costs no matches.
        rattle: Random displacement of every atom along each axis (standard deviation, Å), to leave saddle
            points before a relaxation.
        supercells: Whether supercells of smaller templates compete with templates of the asked size
            ("compete"), or serve only where there is none ("fallback").
        reference: Where templates come from; the bundled one by default.
        fitted: What was learned from that reference.
    """

    chooses_units: ClassVar[bool] = True

    def __init__(
        self,
        *,
        split: Literal["train", "all"] = "train",
        temperature: float = 0.25,
        rattle: float = 0.0,
        supercells: Literal["fallback", "compete"] = "fallback",
        reference: Reference | None = None,
        fitted: Fitted | None = None,
        name: str = "templates",
    ) -> None:
        if temperature < 0 or rattle < 0:
            raise InputError(f"{temperature=} and {rattle=} must not be negative")
        self.reference = load_reference() if reference is None else reference
        self.fitted = load_fitted() if fitted is None else fitted
        self.name, self.max_atoms = name, MAX_ATOMS
        self.split, self.temperature, self.rattle, self.supercells = split, temperature, rattle, supercells
        self._usable = of_split(self.reference, split)
        self._shortest = shortest_bonds(self.reference)
        self.elements = frozenset(np.unique(self.reference.crystals[self._usable].numbers).tolist())
        settings = f"{split}|{temperature}|{rattle}|{supercells}".encode()
        self.hash = content_hash(
            {
                **self.fitted.arrays(),
                "shortest": self._shortest,
                "settings": np.frombuffer(settings, dtype=np.uint8),
            }
        )

    # Retrieval

    @cached_property
    def shelves(self) -> dict[Stoichiometry, Shelf]:
        """Templates by stoichiometry."""
        members: dict[Stoichiometry, list[tuple[int, int]]] = {}
        described = anonymous(self.reference.crystals[self._usable])
        for i, (_, ratio, units) in zip(self._usable.tolist(), described, strict=True):
            members.setdefault(ratio, []).append((i, units))
        return {ratio: self._shelf(ratio, *np.array(pairs).T) for ratio, pairs in members.items()}

    def _shelf(self, ratio: Stoichiometry, crystal: NDArray[np.int64], units: NDArray[np.int64]) -> Shelf:
        prototypes = self.fitted.prototypes
        swaps = role_permutations(ratio)
        label, local = np.unique(prototypes.label[crystal], return_inverse=True)
        position = {tuple(p): i for i, p in enumerate(swaps.tolist())}
        # composed[p, a]: the assignment p followed by the symmetry a
        composed = np.array([[position[tuple(p[a])] for a in swaps] for p in swaps])
        symmetric = prototypes.symmetries[label][:, : len(swaps)]  # [labels, a]
        least = np.where(symmetric[:, None, :], composed[None], len(swaps)).min(axis=2)  # [labels, p]
        above = np.clip(self.reference.e_above_hull[crystal], 0, 0.5)
        return Shelf(
            crystal,
            prototypes.roles[crystal, : len(ratio)],
            units,
            (-self.fitted.similarity.instability * above).astype(np.float32),
            (local[None, :] * len(swaps) + least[local].T),
        )

    def choices(self, request: Request, size: int) -> list[Choice]:
        """At least `size` ways to build the crystal, best first, fewer only when there are no more.

        Different prototypes come first, then second members of the same prototypes, and so on.
        """
        numbers, ratio = _sorted_elements(request)
        shelf = self.shelves.get(ratio)
        if shelf is None:
            return []
        fits = np.flatnonzero(self._fits(shelf.units, request.units, sum(ratio)))
        return self.ranked(numbers, ratio, fits, size, rng=request.rng("prototypes"))

    def ranked(
        self,
        numbers: NDArray[np.int64],
        ratio: Stoichiometry,
        fits: NDArray[np.int64],
        size: int,
        *,
        similarity: Similarity | None = None,
        rng: np.random.Generator | None = None,
    ) -> list[Choice]:
        """`choices` among some templates of one stoichiometry.

        Args:
            numbers: Atomic numbers by ascending count.  # [k]
            ratio: Their counts.
            fits: Which templates of `shelves[ratio]`.
            size: As many as are wanted.
            similarity: Whose distances count, where `numbers` go beyond the elements; else the fitted one.
            rng: Of the noise that a temperature adds; None: without.
        """
        shelf = self.shelves[ratio]
        if not len(fits):
            return []
        similarity = self.fitted.similarity if similarity is None else similarity
        logits = similarity.log_weights(numbers, shelf.roles[fits], ratio) + shelf.bonus[fits]
        swaps = role_permutations(ratio)
        flat = logits.ravel()
        _, candidate = np.unique(shelf.candidate[:, fits].ravel(), return_inverse=True)
        votes = np.log(np.bincount(candidate, weights=np.exp(flat - flat.max())) + 1e-300)
        probability = np.exp(votes - np.logaddexp.reduce(votes))
        score = votes
        if self.temperature and rng is not None:
            score = votes + self.temperature * rng.gumbel(size=len(votes))
        place = np.empty(len(votes), dtype=np.int64)
        place[np.argsort(-score, kind="stable")] = np.arange(len(votes))
        # Members of a candidate from near to far: round 0 takes the nearest of each candidate, and so on.
        # Permutations of one symmetric prototype repeat a template, only its nearest version is new.
        by_candidate = np.lexsort((-flat, candidate))
        template = by_candidate % len(fits)
        _, first = np.unique(candidate[by_candidate] * len(fits) + template, return_index=True)
        by_candidate = by_candidate[np.sort(first)]
        owner = candidate[by_candidate]
        turn = np.arange(len(owner)) - np.searchsorted(owner, owner)
        best = by_candidate[np.lexsort((place[owner], turn))[:size]]
        return [
            Choice(
                int(shelf.crystal[fits[i % len(fits)]]),
                dict(
                    zip(
                        shelf.roles[fits[i % len(fits)]].tolist(),
                        numbers[swaps[i // len(fits)]].tolist(),
                        strict=True,
                    )
                ),
                float(probability[candidate[i]]),
                float(votes[candidate[i]] + flat.max()),
            )
            for i in best.tolist()
        ]

    def _fits(self, units: NDArray[np.int64], asked: int | None, unit_atoms: int) -> NDArray[np.bool_]:
        if asked is None:
            return units * unit_atoms <= self.max_atoms
        exact, divides = units == asked, asked % units == 0
        return divides if self.supercells == "compete" or not exact.any() else exact

    # Construction

    @cached_property
    def fallback(self) -> NearbyStoichiometries:
        """For compositions whose stoichiometry no template has."""
        return NearbyStoichiometries(
            self.reference,
            self._usable,
            self.fitted.prototypes,
            self.fitted.similarity,
            self.fitted.volumes,
            self.max_atoms,
            self.split,
        )

    def draw(self, requests: Sequence[Request]) -> Crystals:
        """One crystal per request; draw number d of a composition takes the d-th choice."""
        needed: dict[tuple[str | int, ...], int] = {}
        for request in requests:
            needed[request.stream] = max(needed.get(request.stream, 0), request.draw + 1)
        lists: dict[tuple[str | int, ...], list[Choice]] = {}
        crystals = []
        for request in requests:
            if request.stream not in lists:
                lists[request.stream] = self.choices(request, needed[request.stream])
            crystals.append(self._build(request, lists[request.stream]))
        made = make_room(Crystals.concatenate(crystals), self._shortest)
        sizes = [REPEAT_RATTLE if 0 < len(lists[r.stream]) <= r.draw else self.rattle for r in requests]
        if not any(sizes):
            return made
        return Crystals.concatenate(map(_rattled, made, requests, sizes))

    def _build(self, request: Request, choices: list[Choice]) -> Crystals:
        if choices:
            choice = choices[request.draw % len(choices)]
            crystal = self._substitute(choice)
            if request.units is None:
                return crystal
            times = request.composition.n_atoms // crystal.n_atoms
            return supercell(crystal, times, request.rng("supercell", request.draw))
        return self.fallback.draw_one(request)

    def _substitute(self, choice: Choice) -> Crystals:
        template = self.reference.crystals[choice.crystal]
        numbers = np.array([choice.replace[z] for z in template.numbers.tolist()])
        scale = self.fitted.volumes.ratio(numbers, template.numbers) ** (1 / 3)
        return Crystals(template.counts, numbers, template.frac, template.lattice * scale)


def _rattled(crystal: Crystals, request: Request, size: float) -> Crystals:
    """Every atom displaced at random, `size` Å along each axis."""
    shift = request.rng("rattle", request.draw).normal(scale=size, size=crystal.frac.shape)
    return crystal.replace(frac=crystal.frac + shift @ np.linalg.inv(crystal.lattice[0]))


REPEAT_RATTLE = 0.05
"""Å; draws beyond the last distinct choice repeat earlier ones, displaced by this."""


def _sorted_elements(request: Request) -> tuple[NDArray[np.int64], Stoichiometry]:
    """Atomic numbers by ascending count, and the stoichiometry."""
    counts = np.array(request.composition.counts)
    order = np.argsort(counts, kind="stable")
    numbers = np.array([NUMBER[request.composition.elements[i]] for i in order])
    return numbers, tuple((counts[order] // np.gcd.reduce(counts)).tolist())


_shared = cache(TemplatePrior)


def load(
    *,
    device: str = "cpu",
    split: Literal["train", "all"] = "train",
    temperature: float = 0.25,
    rattle: float = 0.0,
    supercells: Literal["fallback", "compete"] = "fallback",
) -> TemplatePrior:
    """The template prior over the bundled reference, made once per process. It computes on the CPU always."""
    del device
    return _shared(split=split, temperature=temperature, rattle=rattle, supercells=supercells)
