"""The message-passing network of omatg and kldm (CSPNet), dense over all ordered pairs of atoms.

Fractional coordinates enter as differences only, so features do not change when all atoms are shifted, by any
vector or each by whole cells; atoms have no order. The first layer of every message is linear in what it
joins, so it is computed part by part: the same function as of joined vectors, at a fraction of the cost.

Beyond the published network, the small one sees the geometry of the noisy cell: for every pair the number of
periodic images at each distance (`shells`), and can push atoms along the lines between them (`push`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from anchor.chemistry.elements import NUMBERS
from anchor.chemistry.features import element_features
from anchor.errors import InputError
from anchor.models.cells import neighbour_images, wrap
from anchor.models.data import MAX_NUMBER

LAST_SHELL = 8.0
"""Å; centre of the outermost Gaussian of distances."""


@dataclass(frozen=True)
class CspSize:
    """Size of a CspNet.

    Attributes:
        hidden: Width of atoms.
        messages: Width of pairs.
        layers: Rounds of messages.
        frequencies: Waves per axis of coordinate differences, from wave number 0.
        time_features: Width of the time features.
        shells: Gaussians of pair distances; 0 as published.
        descriptors: Add the 38 element descriptors to the element embedding; off as published.
    """

    hidden: int = 512
    messages: int = 512
    layers: int = 6
    frequencies: int = 128
    time_features: int = 256
    shells: int = 0
    descriptors: bool = False


SMALL = CspSize(
    hidden=256, messages=128, layers=6, frequencies=16, time_features=128, shells=16, descriptors=True
)
PUBLISHED = CspSize()


class CspNet(nn.Module):
    """Features of atoms from noisy coordinates, cell and time.

    Args:
        size: See `CspSize`.
        lattice_features: Numbers that describe the cell to every pair (6 parameters, or the 9 of G).
        self_pairs: Whether an atom sends a message to itself (omatg) or not (kldm).
        velocities: Whether atoms carry velocities (kldm).
    """

    def __init__(
        self, size: CspSize, *, lattice_features: int, self_pairs: bool, velocities: bool = False
    ) -> None:
        super().__init__()
        self.size, self.self_pairs = size, self_pairs
        self.elements = ElementEmbedding(size.hidden, descriptors=size.descriptors)
        self.atom_in = nn.Linear(size.hidden + size.time_features, size.hidden)
        waves = 6 * size.frequencies
        self.velocity_in = nn.Linear(3, waves) if velocities else None
        pair_features = waves * (2 if velocities else 1) + 2 * size.shells
        self.layers = nn.ModuleList(
            MessageLayer(size.hidden, size.messages, pair_features, lattice_features)
            for _ in range(size.layers)
        )
        self.norm = nn.LayerNorm(size.hidden)
        self.push_out = nn.Linear(size.messages, size.shells, bias=False) if size.shells else None
        if self.push_out is not None:
            nn.init.zeros_(self.push_out.weight)

    @torch.no_grad()
    def begin_as(self, other: CspNet) -> None:
        """Take over from a network of the same size, trained for another process, what both mean alike.

        That is elements, messages and updates. Features of time, cell and velocity, and the pushes, stay.
        """
        if self.size != other.size:
            raise InputError("the networks differ in size", "train both with the same sizes")
        mine, theirs = dict(self.named_parameters()), dict(other.named_parameters())
        hidden, shells = self.size.hidden, 2 * self.size.shells
        shared = 6 * self.size.frequencies
        for name, value in theirs.items():
            if name.startswith("push_out") or name not in mine:
                continue
            if name == "atom_in.weight":
                mine[name][:, :hidden] = value[:, :hidden]
            elif name.endswith("pair.weight"):
                mine[name][:, :shared] = value[:, :shared]
                if shells:
                    mine[name][:, -shells:] = value[:, -shells:]
            elif mine[name].shape == value.shape:
                mine[name].copy_(value)

    def forward(
        self,
        numbers: Tensor,
        time_features: Tensor,
        frac: Tensor,
        cell: Tensor,
        lattice_features: Tensor,
        velocity: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Features and pushes of atoms.

        Args:
            numbers: Atomic numbers.  # [b, n]
            time_features: See `sinusoids` and `FourierTime`.  # [b, time_features]
            frac: Noisy fractional coordinates.  # [b, n, 3]
            cell: Noisy cells, Å, for distances; any numbers are survived.  # [b, 3, 3]
            lattice_features: What the model shows of the cell.  # [b, lattice_features]
            velocity: Of atoms.  # [b, n, 3]

        Returns: Features [b, n, hidden]; pushes as fractional vectors [b, n, 3], zero without shells.
        """
        b, n, _ = frac.shape
        time = time_features[:, None].expand(b, n, -1)
        atoms = self.atom_in(torch.cat([self.elements(numbers), time], dim=-1))
        difference = frac[:, None, :, :] - frac[:, :, None, :]  # [b, i, j] = f_j − f_i
        pairs = [waves(difference, self.size.frequencies, first=0)]
        if self.velocity_in is not None:
            assert velocity is not None
            pairs.append(self.velocity_in(velocity[:, None, :, :] - velocity[:, :, None, :]))
        if self.size.shells:
            inner, outward = shells(difference, cell, self.size.shells)
            pairs.append(inner)
        pair_features = torch.cat(pairs, dim=-1)
        kind = frac.device.type
        if torch.is_autocast_enabled(kind):  # once, not in every layer
            pair_features = pair_features.to(torch.get_autocast_dtype(kind))
        for layer in self.layers:
            atoms, message = layer(atoms, pair_features, lattice_features, self_pairs=self.self_pairs)
        if self.push_out is None:
            return self.norm(atoms), torch.zeros_like(frac)
        # Sum over neighbours and shells of a weight times the fractional vector to the neighbour.
        push = torch.einsum("bijk,bijkx->bix", self.push_out(message).to(frac.dtype), outward) / math.sqrt(n)
        return self.norm(atoms), push


class MessageLayer(nn.Module):
    """LayerNorm; two-layer messages over pairs; their mean; two-layer update; residual."""

    def __init__(self, hidden: int, messages: int, pair_features: int, lattice_features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.receiver = nn.Linear(hidden, messages, bias=False)
        self.sender = nn.Linear(hidden, messages, bias=False)
        self.lattice = nn.Linear(lattice_features, messages, bias=False)
        self.pair = nn.Linear(pair_features, messages)
        self.message = nn.Linear(messages, messages)
        self.update = nn.Sequential(
            nn.Linear(hidden + messages, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        )
        joined = 2 * hidden + lattice_features + pair_features
        for part in (self.receiver, self.sender, self.lattice, self.pair):
            nn.init.uniform_(part.weight, -1 / math.sqrt(joined), 1 / math.sqrt(joined))

    def forward(
        self, atoms: Tensor, pair_features: Tensor, lattice_features: Tensor, *, self_pairs: bool
    ) -> tuple[Tensor, Tensor]:
        h = self.norm(atoms)
        per_atom = self.receiver(h) + self.lattice(lattice_features)[:, None]
        first = self.pair(pair_features) + per_atom[:, :, None] + self.sender(h)[:, None]
        message = nn.functional.silu(self.message(nn.functional.silu(first)))  # [b, i, j, messages]
        n = atoms.shape[1]
        total = message.sum(dim=2)
        if self_pairs:
            mean = total / n
        else:
            own = message.diagonal(dim1=1, dim2=2).transpose(1, 2)
            mean = (total - own) / max(n - 1, 1)
        return atoms + self.update(torch.cat([h, mean], dim=-1)), message


class ElementEmbedding(nn.Module):
    """A learned vector per element, plus a linear map of its descriptors if asked."""

    descriptors: Tensor

    def __init__(self, width: int, *, descriptors: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(MAX_NUMBER + 1, width)
        self.project = None
        if descriptors:
            rows = torch.zeros(MAX_NUMBER + 1, element_features().shape[1])
            rows[torch.from_numpy(NUMBERS.copy())] = torch.from_numpy(element_features().copy())
            self.register_buffer("descriptors", rows)
            self.project = nn.Linear(rows.shape[1], width)

    def forward(self, kinds: Tensor) -> Tensor:
        """Of atomic numbers [b, n], 0 for none; or of chances [b, n, 101]: their average."""
        if kinds.dim() == 3:
            learned = kinds @ self.table.weight
            return learned if self.project is None else learned + self.project(kinds @ self.descriptors)
        learned = self.table(kinds)
        return learned if self.project is None else learned + self.project(self.descriptors[kinds])


# Features


def waves(difference: Tensor, count: int, *, first: int) -> Tensor:
    """sin and cos of 2πk times each axis, k = first … first + count − 1.  # [..., 6 count]"""
    k = torch.arange(first, first + count, device=difference.device, dtype=difference.dtype)
    angle = (2 * math.pi * k * difference[..., None]).flatten(-2)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def sinusoids(t: Tensor, width: int, *, slowest: float = 1e4) -> Tensor:
    """sin and cos of t · slowest^(−i/(half − 1)), i = 0 … half − 1.  # [b, width]"""
    half = width // 2
    speed = slowest ** (-torch.arange(half, device=t.device, dtype=t.dtype) / (half - 1))
    angle = t[:, None] * speed
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class FourierTime(nn.Module):
    """cos and sin of 2πwt with frozen w ~ N(0, 1)."""

    w: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("w", torch.randn(width // 2))

    def forward(self, t: Tensor) -> Tensor:
        angle = 2 * math.pi * t[:, None] * self.w
        return torch.cat([angle.cos(), angle.sin()], dim=-1)


@cache
def _half_images(device: torch.device) -> Tensor:
    """One of each two opposite neighbours.  # [13, 3]"""
    images = neighbour_images(device)
    order = images @ images.new_tensor([9.0, 3.0, 1.0])
    return images[order > 0]


@torch.no_grad()
def nearest_distance(difference: Tensor, cell: Tensor) -> Tensor:
    """Distance to the nearest of 27 images, Å.  # [b, n, n]

    For opposite neighbours ±s of a wrapped difference d: |d ± s|² = dGd ± 2 sGd + sGs, the smaller of which
    has −2|sGd|; so 13 of them and the cell itself suffice.
    """
    d = wrap(difference)
    gram = cell @ cell.mT
    gd = torch.einsum("bxy,bijy->bijx", gram, d)
    s = _half_images(difference.device)
    ss = torch.einsum("sx,bxy,sy->bs", s, gram, s)
    nearer = (ss[:, None, None] - 2 * (gd @ s.T).abs()).amin(dim=-1)
    return ((d * gd).sum(-1) + nearer.clamp(max=0)).clamp(min=0).sqrt()


@torch.no_grad()
def shells(difference: Tensor, cell: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Periodic images of each pair by distance, and where they are.

    φ_k(d) is a Gaussian around k·8/count Å. Over the 27 images at distance d_s along the fractional vector
    u_s: Σ_s w(u_s) φ_k(d_s), and Σ_s w(u_s) φ_k(d_s) u_s. The window w = Π cos²(π u/3) over the axes vanishes
    where an image enters or leaves the 27, so that both are smooth on the torus. Axes may be exchanged or
    turned round; an atom's own images count, the atom itself does not.

    Args:
        difference: f_j − f_i.  # [b, n, n, 3]
        cell: Å.  # [b, 3, 3]
        count: Number of shells.

    Returns: [b, n, n, 2 count] (numbers of images, and Gaussians of the nearest distance alone, which tell
        a bond from a shell), and [b, n, n, count, 3].
    """
    b, n = difference.shape[:2]
    images = neighbour_images(difference.device).to(difference.dtype)
    u = wrap(difference)[..., None, :] + images  # [b, n, n, 27, 3]
    distance = (u @ cell[:, None, None]).norm(dim=-1)  # [b, n, n, 27]
    width = LAST_SHELL / count
    centres = width * torch.arange(1, count + 1, device=distance.device, dtype=distance.dtype)
    window = torch.cos(u * (math.pi / 3)).prod(dim=-1) ** 2
    gaussians = torch.exp(-0.5 * ((distance[..., None] - centres) / width) ** 2)  # [b, n, n, 27, count]
    gaussians *= window[..., None]
    atom = torch.arange(n, device=distance.device)
    gaussians[:, atom, atom, 0] = 0
    flat = gaussians.flatten(0, 2)
    outward = torch.bmm(flat.mT, u.flatten(0, 2)).view(b, n, n, count, 3)
    away = distance.clone()
    away[:, atom, atom, 0] = math.inf
    nearest = torch.exp(-0.5 * ((away.amin(dim=-1)[..., None] - centres) / width) ** 2)
    inner = torch.cat([torch.log1p(gaussians.sum(dim=-2)), nearest], dim=-1)
    return inner, outward
