"""Crystals from a WyckoffNet: the most probable ones (beam search) or random ones, with exact atom counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.models.wyckoff.counting import can_finish, feasible_groups
from anchor.models.wyckoff.data import begun
from anchor.models.wyckoff.encoding import Orbit, element_order
from anchor.models.wyckoff.network import BINS, WyckoffNet
from anchor.models.wyckoff.tables import tables

PEAK = 6
"""Bins to each side that belong to the same peak of a free coordinate: 0.05 of a cell."""
Counts = dict[int, int]
Choose = Callable[[NDArray[np.float64], int], int]
"""Picks one of some log-probabilities for the n-th sequence."""


@dataclass(frozen=True)
class Draft:
    """A crystal that is being written.

    Attributes:
        query: Which of the compositions asked for.
        elements, counts: In the order of placement.
        left: Atoms of each element still to place.
        group: Space group number; 0 before it is chosen.
        orbits: Written so far.
        log_p: Log-probability of the choices so far (of a free coordinate: of its peak).
    """

    query: int
    elements: tuple[int, ...]
    counts: tuple[int, ...]
    left: tuple[int, ...]
    group: int = 0
    orbits: tuple[Orbit, ...] = ()
    log_p: float = 0.0

    @property
    def slot(self) -> int:
        """The element to place next; −1 when all is placed."""
        return next((i for i, n in enumerate(self.left) if n), -1)

    @property
    def done(self) -> bool:
        return self.slot < 0

    @property
    def atoms(self) -> Counts:
        """What was asked for."""
        return dict(zip(self.elements, self.counts, strict=True))

    def possible(self) -> NDArray[np.bool_]:
        """Positions of the group from which all atoms can still be placed.  # [27]"""
        known, slot = tables(), self.slot
        rows = known.members[self.group - 1]
        taken = {o.position for o in self.orbits if not known.freedom[rows[o.position]]}
        found = np.zeros(len(rows), dtype=bool)
        for i in np.flatnonzero(rows >= 0).tolist():
            multiplicity, point = int(known.multiplicity[rows[i]]), not known.freedom[rows[i]]
            if multiplicity > self.left[slot] or i in taken:
                continue
            left = [n - multiplicity * (j == slot) for j, n in enumerate(self.left)]
            found[i] = can_finish(self.group, taken | {i} if point else taken, left)
        return found

    def with_orbit(self, orbit: Orbit, log_p: float) -> Draft:
        known = tables()
        multiplicity = int(known.multiplicity[known.first[self.group - 1] + orbit.position])
        left = tuple(n - multiplicity * (j == self.slot) for j, n in enumerate(self.left))
        return replace(self, left=left, orbits=(*self.orbits, orbit), log_p=self.log_p + log_p)


def begin(query: int, counts: Counts) -> Draft:
    elements = element_order(counts)
    atoms = tuple(counts[z] for z in elements)
    return Draft(query, tuple(elements), atoms, atoms)


class Writer:
    """Writes crystals of given compositions.

    Args:
        net: In evaluation mode, on `device`.
    """

    def __init__(self, net: WyckoffNet, *, device: str | torch.device = "cpu") -> None:
        self.net, self.device = net, device
        with torch.no_grad():
            self.features = net.position_features()

    @torch.no_grad()
    def best(self, queries: Sequence[Counts], *, width: int) -> list[list[Draft]]:
        """The most probable crystals of each composition that a beam of `width` finds, best first."""
        starts = [begin(i, counts) for i, counts in enumerate(queries)]
        beams: list[list[Draft]] = []
        for start, log_p in zip(starts, self._group_scores(starts), strict=True):
            order = np.argsort(-log_p, kind="stable")[:width]
            beams.append(
                [replace(start, group=int(g) + 1, log_p=float(log_p[g])) for g in order if log_p[g] > -np.inf]
            )
        while growing := [draft for beam in beams for draft in beam if not draft.done]:
            hidden, scores = self._position_scores(growing)
            children: list[list[tuple[float, Draft, int, int]]] = [
                [(draft.log_p, draft, -1, -1) for draft in beam if draft.done] for beam in beams
            ]
            for row, draft in enumerate(growing):
                for position in np.flatnonzero(scores[row] > -np.inf).tolist():
                    log_p = draft.log_p + float(scores[row, position])
                    children[draft.query].append((log_p, draft, row, position))
            kept = [sorted(some, key=lambda child: -child[0])[:width] for some in children]
            grown = iter(
                self._grow(
                    [(draft, row, position) for some in kept for _, draft, row, position in some if row >= 0],
                    hidden,
                    scores,
                    _highest,
                )
            )
            beams = [[draft if row < 0 else next(grown) for _, draft, row, _ in some] for some in kept]
        return [sorted(beam, key=lambda draft: -draft.log_p) for beam in beams]

    @torch.no_grad()
    def random(
        self, queries: Sequence[Counts], streams: Sequence[np.random.Generator], *, temperature: float = 1.0
    ) -> list[Draft]:
        """One random crystal of each composition, each with its own random numbers."""

        def choose(log_p: NDArray[np.float64], query: int) -> int:
            noise = streams[query].gumbel(size=len(log_p))
            return int(np.argmax(log_p + temperature * noise))

        drafts = [begin(i, counts) for i, counts in enumerate(queries)]
        if not drafts:
            return []
        for i, log_p in enumerate(self._group_scores(drafts)):
            group = choose(log_p, i)
            drafts[i] = replace(drafts[i], group=group + 1, log_p=float(log_p[group]))
        while growing := [draft for draft in drafts if not draft.done]:
            hidden, scores = self._position_scores(growing)
            chosen = [(draft, row, choose(scores[row], draft.query)) for row, draft in enumerate(growing)]
            for draft in self._grow(chosen, hidden, scores, choose):
                drafts[draft.query] = draft
        return drafts

    @torch.no_grad()
    def cells(self, drafts: Sequence[Draft]) -> tuple[Tensor, Tensor, Tensor]:
        """Mixtures of standardised cell numbers of finished drafts: see `WyckoffNet.cell_mixture`."""
        return self.net.cell_mixture(self._hidden(drafts))

    # One choice for many drafts

    def _group_scores(self, drafts: Sequence[Draft]) -> NDArray[np.float64]:
        """Log-probabilities of the groups that can hold the atoms.  # [n, 230]"""
        hidden = self._hidden(drafts, after_group=False)
        logits = self.net.group_head(hidden).double().cpu().numpy()
        possible = np.array([feasible_groups(draft.counts) for draft in drafts])
        return _log_softmax(np.where(possible, logits, -np.inf))

    def _position_scores(self, drafts: Sequence[Draft]) -> tuple[Tensor, NDArray[np.float64]]:
        """Features [n, d] and log-probabilities [n, 27] of the next orbit's position."""
        hidden = self._hidden(drafts)
        group = torch.tensor([draft.group - 1 for draft in drafts], device=self.device)
        logits = self.net.position_logits(hidden[:, None], group, self.features)[:, 0]
        possible = np.array([draft.possible() for draft in drafts])
        return hidden, _log_softmax(np.where(possible, logits.double().cpu().numpy(), -np.inf))

    def _grow(
        self,
        chosen: Sequence[tuple[Draft, int, int]],
        hidden: Tensor,
        scores: NDArray[np.float64],
        choose: Choose,
    ) -> list[Draft]:
        """Drafts with one more orbit each: (draft, its row, position), and coordinates as `choose` says."""
        known = tables()
        rows = torch.tensor([row for _, row, _ in chosen], device=self.device)
        places = np.array([known.first[draft.group - 1] + position for draft, _, position in chosen])
        features = self.features[torch.from_numpy(places).to(self.device)]
        free = torch.zeros(len(chosen), 3, device=self.device)
        log_p = np.array([scores[row, position] for _, row, position in chosen])
        for axis in range(3):
            used = np.flatnonzero(known.freedom[places] > axis)
            if not len(used):
                break
            index = torch.from_numpy(used).to(self.device)
            logits = self.net.free_logits(hidden[rows[index]], features[index], free[index], axis)
            shares = logits.softmax(-1).double().cpu().numpy()
            for i, share in zip(used.tolist(), shares, strict=True):
                with np.errstate(divide="ignore"):
                    middle = choose(np.log(share), chosen[i][0].query)
                value, mass = _coordinate(share, middle)
                free[i, axis] = value
                log_p[i] += math.log(mass)
        coordinates = free.cpu().numpy()
        return [
            draft.with_orbit(
                Orbit(
                    draft.elements[draft.slot],
                    position,
                    tuple(coordinates[i, : known.freedom[places[i]]].tolist()),
                ),
                float(log_p[i]),
            )
            for i, (draft, _, position) in enumerate(chosen)
        ]

    def _hidden(self, drafts: Sequence[Draft], *, after_group: bool = True) -> Tensor:
        """Features from which the next choice is made.  # [n, d]"""
        seq = begun([(d.elements, d.counts, d.group, d.orbits) for d in drafts]).to(self.device)
        hidden = self.net.hidden(seq, self.features)
        if not after_group:
            return hidden[:, 0]
        return hidden[torch.arange(len(drafts), device=hidden.device), seq.length + 1]


def _highest(log_p: NDArray[np.float64], _query: int) -> int:
    return int(np.argmax(log_p))


def _coordinate(share: NDArray[np.float64], chosen: int) -> tuple[float, float]:
    """A free coordinate in [0, 1), the middle of the peak near the chosen bin, and that peak's probability.

    Args:
        share: Of the bins.  # [BINS]
        chosen: A bin.
    """
    window = np.arange(-PEAK, PEAK + 1)
    top = chosen + window[share[(chosen + window) % BINS].argmax()]
    narrow = np.arange(-2, 3)
    weights = share[(top + narrow) % BINS]
    value = (top + float((weights * narrow).sum() / weights.sum())) / BINS
    return value % 1.0, float(share[(top + window) % BINS].sum())


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """# [n, m], −inf where a choice is impossible"""
    highest = logits.max(axis=1, keepdims=True)
    return logits - highest - np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
