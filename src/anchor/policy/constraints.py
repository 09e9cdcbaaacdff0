"""What a composition may be: the paper's action space and users' wishes as masks, never as rejections.

A mask is true where a choice leaves at least one complete composition inside the limits. So a policy sampled
under these masks cannot run into a dead end, and its probabilities over the allowed compositions sum to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.config import ActionSpace
from anchor.errors import InputError, nearest

CARDINALITIES = (2, 3, 4)
"""Outputs of the policy's cardinality head: 𝒦 of the paper. A campaign may allow fewer by mask."""

CELL_SIZES = tuple(range(2, 21))
"""Outputs of the policy's cell-size head, atoms per cell."""

_NEVER = -(10**6)  # stands for minus infinity in sums of atom counts


@dataclass(frozen=True, eq=False)
class Limits:
    """Allowed compositions; every mask the policy uses comes from here.

    Attributes:
        allowed: Elements that may be drawn.  # [84] bool
        required: Elements in every composition (a subset of allowed).  # [84] bool
        lower: Fewest atoms of an element where it occurs, at least 1.  # [84] int
        upper: Most atoms of an element.  # [84] int
        k: Admissible numbers of elements, those for which some composition exists.
        min_atoms, max_atoms: Bounds of the cell size T.
    """

    allowed: Tensor
    required: Tensor
    lower: Tensor
    upper: Tensor
    k: tuple[int, ...]
    min_atoms: int
    max_atoms: int

    @classmethod
    def from_config(cls, space: ActionSpace, *, searchable: Iterable[str] | None = None) -> Limits:
        """Limits of an action space, perhaps within a restricted vocabulary (`searchable`).

        Raises:
            InputError: An element is unknown, or no composition satisfies everything; the message says why.
        """
        vocabulary = VOCABULARY if searchable is None else tuple(searchable)
        for name, symbols in {
            "searchable": vocabulary,
            "elements": space.elements or (),
            "exclude": space.exclude,
            "must_contain": space.must_contain,
            "max_counts": space.max_counts,
            "min_counts": space.min_counts,
        }.items():
            for symbol in symbols:
                if symbol not in INDEX:
                    raise InputError(
                        f"{name}: '{symbol}' is not one of the 84 elements", nearest(symbol, INDEX)
                    )
        allowed = set(vocabulary) - set(space.exclude)
        if space.elements is not None:
            allowed &= set(space.elements)
        loose = [symbol for symbol in space.elements or () if symbol not in vocabulary]
        if loose := [*loose, *(symbol for symbol in space.must_contain if symbol not in vocabulary)]:
            raise InputError(
                f"{', '.join(dict.fromkeys(loose))}: left out of searches, because its reference is not "
                "well determined for this potential, or the hulls have its compounds wrong",
                "leave it out, or search it all the same with --set action_space.allow_loose_references=true",
            )
        for symbol in space.must_contain:
            if symbol not in allowed:
                raise InputError(_why_not_allowed(symbol, space), "leave it out of one of them")
        lower, upper = _count_bounds(space, allowed)
        limits = cls(
            allowed=_mask(allowed),
            required=_mask(space.must_contain),
            lower=lower,
            upper=upper,
            k=tuple(sorted(set(space.k))),
            min_atoms=space.min_atoms,
            max_atoms=space.max_atoms,
        )
        possible = limits.cardinality_mask(limits.allowed)
        feasible = tuple(k for k, fits in zip(CARDINALITIES, possible.tolist(), strict=True) if fits)
        if not feasible:
            reasons = "; ".join(f"k = {k}: {limits._why_impossible(k)}" for k in limits.k)
            raise InputError(f"no composition satisfies the limits ({reasons})", "relax one of them")
        return replace(limits, k=feasible)

    @property
    def n_allowed(self) -> int:
        """Elements that may be drawn, E of the paper when nothing is restricted."""
        return int(self.allowed.sum())

    def to(self, device: torch.device | str) -> Limits:
        """The same limits with tensors on `device`."""
        return replace(
            self,
            allowed=self.allowed.to(device),
            required=self.required.to(device),
            lower=self.lower.to(device),
            upper=self.upper.to(device),
        )

    # Masks. Leading dimensions ("...") are batches.

    def cardinality_mask(self, subgroup: Tensor) -> Tensor:
        """Numbers of elements for which the sub-group holds some composition.

        Args:
            subgroup: Elements of the rollout, all required ones among them.  # [..., 84] bool

        Returns: # [..., 3] bool, in the order of CARDINALITIES
        """
        ks = torch.tensor(CARDINALITIES, device=subgroup.device)
        pool = self._count_classes(subgroup & ~self.required)[..., None, :]  # [..., 1, classes]
        room = self.max_atoms - self.lower[self.required].sum()
        need = self.min_atoms - self.upper[self.required].sum()
        shape = (*subgroup.shape[:-1], len(ks))
        fits = self._can_fill(
            pool.expand(*shape, pool.shape[-1]),
            (ks - self.required.sum()).expand(shape),
            room.expand(shape),
            need.expand(shape),
        )
        return fits & torch.tensor([k in self.k for k in CARDINALITIES], device=subgroup.device)

    def element_mask(self, subgroup: Tensor, chosen: Tensor, slots: Tensor) -> Tensor:
        """Elements that may be drawn next, ℰ_i of eq:head-e, keeping required elements and some T possible.

        Args:
            subgroup: Elements of the rollout.  # [..., 84] bool
            chosen: Elements drawn so far.  # [..., 84] bool
            slots: Elements still to draw, this one included; below 1 the mask has no meaning.  # [...]

        Returns: # [..., 84] bool
        """
        available = subgroup & ~chosen
        missing = self.required & ~chosen
        # When the slots left equal the required elements left, only those may be drawn.
        forced = (missing.sum(-1) >= slots)[..., None]
        mask = torch.where(forced, missing, available)
        if self.elements_differ:
            mask = mask & self._completable(available, missing, chosen, slots)
        return torch.where((slots > 0)[..., None], mask, available)

    def size_mask(self, elements: Tensor) -> Tensor:
        """Cell sizes that the drawn elements' bounds allow, {k, …, N} of eq:head-T when nothing is bounded.

        Args:
            elements: Vocabulary indices, -1 after the last.  # [..., 4]

        Returns: # [..., 19] bool, in the order of CELL_SIZES
        """
        lower, upper = self.count_bounds(elements)
        sizes = torch.tensor(CELL_SIZES, device=elements.device)
        low = lower.sum(-1, keepdim=True).clamp(min=self.min_atoms)
        high = upper.sum(-1, keepdim=True).clamp(max=self.max_atoms)
        return (low <= sizes) & (sizes <= high)

    def count_bounds(self, elements: Tensor) -> tuple[Tensor, Tensor]:
        """Fewest and most atoms of each drawn element, 0 and 0 after the last.  # [..., 4] -> two [..., 4]"""
        present = elements >= 0
        index = elements.clamp(min=0)
        return self.lower[index] * present, self.upper[index] * present

    # Is there a completion? Elements with equal bounds are one class, so the search is over few classes.

    @property
    def elements_differ(self) -> bool:
        """Whether elements differ in their count bounds; otherwise any allowed element can be completed."""
        return len(self._classes[0]) > 1

    @cached_property
    def _classes(self) -> tuple[Tensor, Tensor]:
        """Distinct (lower, upper) of the allowed elements [classes, 2], and each element's class [84]."""
        bounds = torch.stack([self.lower, self.upper], dim=-1)
        bounds = torch.where(self.allowed[:, None], bounds, bounds[self.allowed.long().argmax()])
        return torch.unique(bounds, dim=0, return_inverse=True)

    def _count_classes(self, elements: Tensor) -> Tensor:
        """Elements of each class in a set.  # [..., 84] bool -> [..., classes] int"""
        values, member = self._classes
        in_class = torch.nn.functional.one_hot(member, len(values)).to(torch.float32)
        return (elements.to(torch.float32) @ in_class).to(torch.int64)

    def _completable(self, available: Tensor, missing: Tensor, chosen: Tensor, slots: Tensor) -> Tensor:
        """Whether a composition within the limits exists after drawing each element.  # [..., 84] bool"""
        values, member = self._classes
        n_classes = len(values)
        fixed = chosen | missing
        room = self.max_atoms - (self.lower * fixed).sum(-1, keepdim=True)  # [..., 1]
        need = self.min_atoms - (self.upper * fixed).sum(-1, keepdim=True)
        free = (slots - missing.sum(-1))[..., None]
        pool = self._count_classes(available & ~missing)[..., None, :]
        # Drawing an element that is not required uses one slot and one member of its class; drawing a
        # required one (last row) uses neither, since it is counted as fixed already.
        taken = torch.eye(n_classes + 1, n_classes, dtype=torch.int64, device=pool.device)
        free_drawn = torch.cat([free.expand(*free.shape[:-1], n_classes) - 1, free], dim=-1)
        fits = self._can_fill(
            pool - taken,
            free_drawn,
            room - torch.cat([values[:, 0], values.new_zeros(1)]),
            need - torch.cat([values[:, 1], values.new_zeros(1)]),
        )
        by_class = fits[..., :n_classes][..., member]
        return torch.where(missing, fits[..., -1:], by_class)

    def _can_fill(self, pool: Tensor, slots: Tensor, room: Tensor, need: Tensor) -> Tensor:
        """Whether `slots` elements exist in the pool with Σ lower ≤ room and Σ upper ≥ need.

        A knapsack over classes: the largest Σ upper for each number of elements and each Σ lower.

        Args:
            pool: Elements of each class that may be taken.  # [..., classes]
            slots, room, need:  # [...]

        Returns: # [...] bool
        """
        values, _ = self._classes
        sums = self.max_atoms + 1
        question = torch.cat(
            [pool.clamp(max=MAX_ELEMENTS), torch.stack([slots, room, need], dim=-1)], dim=-1
        ).flatten(0, -2)
        asked, answer_of = torch.unique(question, dim=0, return_inverse=True)  # rows repeat each other
        members, (slots_asked, room_asked, need_asked) = asked[:, :-3], asked[:, -3:].unbind(-1)

        best = torch.full((len(asked), MAX_ELEMENTS + 1, sums), _NEVER, device=pool.device)
        best[:, 0, 0] = 0
        for index, (low, up) in enumerate(values.tolist()):
            options = [best]
            for count in range(1, MAX_ELEMENTS + 1):
                if count * low < sums:
                    taken = best[:, : MAX_ELEMENTS + 1 - count, : sums - count * low] + count * up
                    taken = torch.nn.functional.pad(taken, (count * low, 0, count, 0), value=_NEVER)
                    options.append(torch.where((members[:, index] >= count)[:, None, None], taken, _NEVER))
            best = torch.stack(options).amax(0)
        reachable = best[
            torch.arange(len(asked), device=pool.device), slots_asked.clamp(0, MAX_ELEMENTS)
        ]  # [asked, sums]
        within = torch.arange(sums, device=pool.device) <= room_asked[:, None]
        largest = torch.where(within, reachable, _NEVER).amax(-1)
        fits = (largest > _NEVER // 2) & (largest >= need_asked)
        fits &= (slots_asked >= 0) & (slots_asked <= MAX_ELEMENTS)
        return fits[answer_of].view(slots.shape)

    def _why_impossible(self, k: int) -> str:
        """The conflict that leaves no composition of k elements."""
        required = int(self.required.sum())
        if required > k:
            return f"{required} required elements"
        if self.n_allowed < k:
            return f"only {self.n_allowed} allowed elements"
        free = self.allowed & ~self.required
        fewest = int(self.lower[self.required].sum() + self.lower[free].sort().values[: k - required].sum())
        most = int(
            self.upper[self.required].sum()
            + self.upper[free].sort(descending=True).values[: k - required].sum()
        )
        if fewest > self.max_atoms:
            return f"at least {fewest} atoms, but max_atoms is {self.max_atoms}"
        if most < self.min_atoms:
            return f"at most {most} atoms, but min_atoms is {self.min_atoms}"
        return f"no {k} elements whose count bounds allow {self.min_atoms} to {self.max_atoms} atoms"


def _mask(symbols: Iterable[str]) -> Tensor:
    mask = torch.zeros(len(VOCABULARY), dtype=torch.bool)
    mask[[INDEX[symbol] for symbol in symbols]] = True
    return mask


def _count_bounds(space: ActionSpace, allowed: set[str]) -> tuple[Tensor, Tensor]:
    """Fewest and most atoms of every element.  # two [84]"""
    cap = space.max_atoms_per_element
    lower = torch.ones(len(VOCABULARY), dtype=torch.int64)
    upper = torch.full((len(VOCABULARY),), cap, dtype=torch.int64)
    for symbol, most in space.max_counts.items():
        if most < 1:
            raise InputError(f"max_counts: {symbol}: {most} allows no atom", f"use exclude: [{symbol}]")
        upper[INDEX[symbol]] = min(most, cap)
    for symbol, fewest in space.min_counts.items():
        if fewest > upper[INDEX[symbol]] and symbol in allowed:
            raise InputError(
                f"min_counts: {symbol}: {fewest} is more than the {int(upper[INDEX[symbol]])} atoms allowed",
                "see max_counts and max_atoms_per_element",
            )
        lower[INDEX[symbol]] = max(fewest, 1)
    return lower, upper


def _why_not_allowed(symbol: str, space: ActionSpace) -> str:
    if symbol in space.exclude:
        return f"must_contain: {symbol} is excluded"
    return f"must_contain: {symbol} is not in elements"
