"""How alike two elements are in the same role of a crystal, learned from which of them share prototypes.

Every element is a point; the dissimilarity of two crystals of one stoichiometry is the sum over roles of the
distance of the elements there. The points are fitted by neighbourhood components analysis (Goldberger et al.
2005): each training crystal, its own formula left out, should find its own prototype, with its elements in
their own roles, among all others weighted by exp(−dissimilarity). A few passes over the reference suffice.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.priors.prototypes import Prototypes, role_permutations
from anchor.priors.units import Stoichiometry
from anchor.random import generator

N_ELEMENTS = 119
DIMENSIONS = 12
NEVER = -1e9  # a log-weight of nothing


@dataclass(frozen=True, eq=False)
class Similarity:
    """Fitted dissimilarity of elements and crystals.

    Attributes:
        distance: Dissimilarity of elements by atomic number, 0 on the diagonal.  # [119, 119], float32
        share_exponent: A role's weight is (its share of the atoms × number of roles) to this power.
        instability: Log-weight lost per eV/atom above the hull: metastable templates are poorer witnesses.
    """

    distance: NDArray[np.float32]
    share_exponent: float
    instability: float

    def role_weights(self, ratio: Stoichiometry) -> NDArray[np.float32]:
        """How much the element in each role matters.  # [k]"""
        share = np.array(ratio, dtype=np.float32) * len(ratio) / sum(ratio)
        return (share**self.share_exponent).astype(np.float32)

    def log_weights(
        self, query: NDArray[np.int64], roles: NDArray[np.int64], ratio: Stoichiometry
    ) -> NDArray[np.float32]:
        """−dissimilarity of a query to templates, for each way to put its elements into their roles.

        Args:
            query: Atomic numbers by ascending count.  # [k]
            roles: Atomic numbers of the templates, role by role.  # [m, k]

        Returns: [p, m], p as in `role_permutations(ratio)`: element `query[permutation[r]]` takes role r.
        """
        weights = self.role_weights(ratio)
        per_pair = [
            self.distance[query][:, roles[:, r]] * weights[r] for r in range(len(ratio))
        ]  # k × [k, m]
        return -sum(per_pair[r][role_permutations(ratio)[:, r]] for r in range(len(ratio)))


def element_properties() -> NDArray[np.float64]:
    """Group, period, electronegativity, radius, Mendeleev number, is 4f, is d; standardised.  # [119, 7]"""
    from pymatgen.core import Element

    table = np.zeros((N_ELEMENTS, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # elements without an electronegativity: 0 serves
        for z in range(1, N_ELEMENTS):
            e = Element.from_Z(z)
            radius = e.atomic_radius or e.atomic_radius_calculated or 1.5
            mendeleev = e.mendeleev_no or 0.0
            table[z] = [
                e.group, e.row, np.nan_to_num(e.X), float(radius), mendeleev, 57 <= z <= 71, e.block == "d",
            ]  # fmt: skip
    common = table[1:95]
    return (table - common.mean(axis=0)) / common.std(axis=0)


class _Model(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        start = generator(seed, "similarity", "start").normal(size=(N_ELEMENTS, DIMENSIONS)) * 0.05
        properties = element_properties()
        start[:, : properties.shape[1]] = 0.8 * properties
        self.points = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
        self.log_scale = torch.nn.Parameter(torch.tensor(0.5))
        self.share_exponent = torch.nn.Parameter(torch.tensor(0.1))
        self.raw_instability = torch.nn.Parameter(torch.tensor(-1.0))

    def distance(self) -> torch.Tensor:
        gaps = (self.points[:, None] - self.points[None]).square().sum(-1)
        return self.log_scale.exp() * (gaps + 1e-6).sqrt()

    def instability(self) -> torch.Tensor:
        return 10 * torch.nn.functional.softplus(self.raw_instability)


@dataclass(frozen=True, eq=False)
class _Group:
    """Training crystals of one stoichiometry and number of formula units."""

    ratio: Stoichiometry
    members: NDArray[np.int64]


def fit_similarity(
    prototypes: Prototypes,
    ratios: list[Stoichiometry],
    units: NDArray[np.int64],
    formulas: NDArray[np.str_],
    energy_above_hull: NDArray[np.float64],
    *,
    epochs: int = 3,
    learning_rate: float = 0.02,
    batch_size: int = 128,
    stay_near_start: float = 1e-3,
    seed: int = 0,
) -> tuple[Similarity, list[float]]:
    """Fit on training crystals (all arguments describe these n crystals).

    Returns: The similarity, and the mean negative log-likelihood of each epoch.
    """
    model = _Model(seed)
    start = model.points.detach().clone()
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    groups = _groups(ratios, units)
    losses = []
    for epoch in range(epochs):
        rng = generator(seed, "similarity", epoch)
        optimiser.param_groups[0]["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        batches = [
            (group, batch)
            for group in groups
            for batch in np.array_split(
                rng.permutation(group.members), math.ceil(len(group.members) / batch_size)
            )
        ]
        total, count = 0.0, 0
        for index in rng.permutation(len(batches)):
            group, batch = batches[index]
            likelihood = _log_likelihood(model, group, batch, prototypes, formulas, energy_above_hull)
            if not len(likelihood):
                continue
            strayed = (model.points - start).square().sum()
            loss = (-likelihood.sum() + stay_near_start * len(likelihood) * strayed) / batch_size
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total, count = total - float(likelihood.sum().detach()), count + len(likelihood)
        losses.append(total / max(count, 1))
    with torch.no_grad():
        distance = model.distance().numpy().copy()
        np.fill_diagonal(distance, 0.0)
        return (
            Similarity(distance, float(model.share_exponent), float(model.instability())),
            losses,
        )


def _groups(ratios: list[Stoichiometry], units: NDArray[np.int64]) -> list[_Group]:
    found: dict[Any, list[int]] = {}
    for i, key in enumerate(zip(ratios, units.tolist(), strict=True)):
        found.setdefault(key, []).append(i)
    return [
        _Group(ratio, np.array(members)) for (ratio, _), members in sorted(found.items()) if len(members) > 2
    ]


def _log_likelihood(
    model: _Model,
    group: _Group,
    batch: NDArray[np.int64],
    prototypes: Prototypes,
    formulas: NDArray[np.str_],
    energy_above_hull: NDArray[np.float64],
) -> torch.Tensor:
    """Log-probability of the right prototype and roles, for the crystals of `batch` that can.  # [≤ b]"""
    swaps = role_permutations(group.ratio)
    k = len(group.ratio)
    query = torch.from_numpy(prototypes.roles[batch, :k])  # [b, k]
    roles = torch.from_numpy(prototypes.roles[group.members, :k])  # [m, k]
    share = torch.tensor(group.ratio, dtype=torch.float32) * k / sum(group.ratio)
    weights = share**model.share_exponent
    distance = model.distance()
    pairs = {
        (a, r): weights[r] * distance[query[:, a, None], roles[None, :, r]]
        for a, r in product(range(k), range(k))
        if group.ratio[a] == group.ratio[r]
    }
    dissimilarity = [torch.stack([pairs[int(p[r]), r] for r in range(k)]).sum(dim=0) for p in swaps]
    logits = -torch.stack(dissimilarity, dim=-1)  # [b, m, p]
    above = torch.tensor(np.clip(energy_above_hull[group.members], 0, 0.5), dtype=torch.float32)
    logits = logits - (model.instability() * above)[None, :, None]

    own_formula = formulas[batch][:, None] == formulas[group.members][None]
    label = prototypes.label[batch]
    right = (label[:, None] == prototypes.label[group.members]) & ~own_formula  # [b, m]
    right_roles = prototypes.symmetries[label][:, : len(swaps)]  # [b, p]
    positive = torch.from_numpy(right[:, :, None] & right_roles[:, None, :])
    possible = positive.flatten(1).any(dim=1)
    logits = logits.masked_fill(torch.from_numpy(own_formula)[:, :, None], NEVER).flatten(1)[possible]
    hits = logits.masked_fill(~positive.flatten(1)[possible], NEVER)
    return torch.logsumexp(hits, dim=1) - torch.logsumexp(logits, dim=1)
