"""M3GNet's three-body term on edges instead of triplets, with its derivative written by hand.

The published network sums over all pairs (j, k) of neighbours of an atom i:

    T_ij = f(r_ij) Σ_{k≠j} f(r_ik) R_ln(r_ik) Y_l(cos θ_jik).

By the addition theorem Y_l(cos θ_jik) is a sum over m of products of spherical harmonics of the two
directions, so the sum over k is a density A_i,nlm made once for each atom: the cost falls from triplets
(about ten for each edge) to edges, and nothing grows with the square of the coordination number. T does not
depend on the layer (only a gate of atom i does), so it is made once for all layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import spherical_jn
from torch import Tensor

from anchor.potentials.functions import DEGREES, SolidHarmonics, Table, bessel_roots, three_body_radial


@dataclass(frozen=True, eq=False)
class Seen:
    """What the derivative needs of the values; `at`, `turned`, `around` are those of wanted edges."""

    center: Tensor  # [n_short]
    wanted: Tensor | None  # [n_wanted]
    at: Tensor  # [n_wanted]
    harmonics: Tensor  # [n_short, lm]
    turned: Tensor  # [n_wanted, lm]
    monomials: Tensor  # [n_short, 13]
    spread: Tensor  # [n_short, lm, n]
    around: Tensor  # [n_wanted, lm, n]
    slopes: Tensor  # [n_short, 17]
    envelope: Tensor  # [n_wanted, 1]
    others: Tensor  # [n_wanted, ln]
    n_atoms: int


class ThreeBody:
    """T_ij of the module's docstring, for edges inside the three-body cutoff; its tables are as `like` is."""

    def __init__(self, cutoff: float, threebody_cutoff: float, like: Tensor) -> None:
        roots = bessel_roots()  # [l, n]
        peak = np.abs([spherical_jn(l + 1, roots[l]) for l in range(DEGREES)])
        degree = np.arange(DEGREES)[:, None]
        # Radial normalisation, and Y_l(cos θ) = sqrt((2 l + 1) / 4π) P_l(cos θ).
        scale = np.sqrt(2.0 / cutoff**3) / peak * np.sqrt((2 * degree + 1) / (4 * np.pi))
        self.radial = Table(three_body_radial(cutoff, threebody_cutoff), threebody_cutoff, like)
        self.harmonics = SolidHarmonics(like)
        self.scale = torch.from_numpy(scale.reshape(-1)).to(like)  # [ln]
        # Takes (l, n) to (l, m, n) by copies; its transpose sums over m.
        spread = np.zeros((DEGREES, DEGREES, DEGREES**2, DEGREES))
        for n in range(DEGREES):
            spread[np.repeat(np.arange(DEGREES), [1, 3, 5, 7]), n, np.arange(DEGREES**2), n] = 1
        self.spread = torch.from_numpy(spread.reshape(16, 64)).to(like)
        self.gather = self.spread.T

    def __call__(
        self, unit: Tensor, length: Tensor, center: Tensor, n_atoms: int, wanted: Tensor | None = None
    ) -> tuple[Tensor, Seen]:
        """Sum over the other neighbours of each edge's first atom, and what `backward` needs.

        Args:
            unit: Directions of edges inside the cutoff.  # [n_short, 3]
            length: Å.  # [n_short]
            center: Their first atoms.  # [n_short]
            n_atoms: Of the graph.
            wanted: Edges whose sums are asked for; None: all.  # [n_wanted]

        Returns:
            T  # [n_wanted, 16]
        """
        values, slopes = self.radial(length)
        harmonics, monomials = self.harmonics(unit)
        spread = (values[:, :16] @ self.spread).view(-1, 16, 4)  # [n_short, lm, n]
        density = length.new_zeros(n_atoms, 16, 4).index_add_(0, center, spread * harmonics[:, :, None])
        at, turned, known = center, harmonics, values
        if wanted is not None:
            at, turned, known = (x.index_select(0, wanted) for x in (center, harmonics, values))
        around = density.index_select(0, at)
        others = (around * turned[:, :, None]).view(-1, 64) @ self.gather
        others -= known[:, :16]  # P_l(1) = 1: the term k = j is taken out again.
        others *= self.scale
        envelope = known[:, 16:]
        seen = Seen(
            center,
            wanted,
            at,
            harmonics,
            turned,
            monomials,
            spread,
            around,
            slopes,
            envelope,
            others,
            n_atoms,
        )
        return others * envelope, seen

    def backward(self, seen: Seen, by_terms: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients by directions and lengths of all edges inside.  # [n_wanted, 16] -> [n, 3], [n]"""
        by_others = by_terms * seen.envelope * self.scale  # [n_wanted, ln]
        by_spread = (by_others @ self.spread).view(-1, 16, 4)
        by_density = by_others.new_zeros(seen.n_atoms, 16, 4)
        by_density.index_add_(0, seen.at, by_spread * seen.turned[:, :, None])
        by_turned = (seen.around * by_spread).sum(dim=2)
        by_envelope = (by_terms * seen.others).sum(dim=1)

        felt = by_density.index_select(0, seen.center)  # [n_short, lm, n]
        by_harmonics = (felt * seen.spread).sum(dim=2)
        by_values = felt.mul_(seen.harmonics[:, :, None]).view(-1, 64) @ self.gather
        if seen.wanted is None:
            by_harmonics += by_turned
            by_values -= by_others
            by_length = (by_values * seen.slopes[:, :16]).sum(dim=1) + by_envelope * seen.slopes[:, 16]
        else:
            by_harmonics.index_add_(0, seen.wanted, by_turned)
            by_values.index_add_(0, seen.wanted, by_others, alpha=-1)
            by_length = (by_values * seen.slopes[:, :16]).sum(dim=1)
            by_length.index_add_(
                0, seen.wanted, by_envelope * seen.slopes[:, 16].index_select(0, seen.wanted)
            )
        return self.harmonics.backward(seen.monomials, by_harmonics), by_length
