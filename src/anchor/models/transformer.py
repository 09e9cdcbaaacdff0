"""The network of crystalite: a transformer over atoms and one cell token, with a geometry bias on attention.

Blocks are adaLN-Zero: the noise level shifts, scales and gates them, and every gate starts at 0. Attention
between two atoms is biased by their distance in the noisy cell; the more noise, the smaller the bias.
Absolute coordinates enter: that a shifted crystal is the same crystal is learned from shifted examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anchor.models.cells import lengths_and_angles, wrap
from anchor.models.data import MAX_ATOMS, MAX_NUMBER
from anchor.models.frames import electropositivity, ranks
from anchor.models.network import ElementEmbedding, nearest_distance, waves

LAST_GAUSSIAN = 2.0
"""Centre of the outermost Gaussian of scaled distances."""


@dataclass(frozen=True)
class TransformerSize:
    """Size of a CrystalTransformer.

    Attributes:
        width: Of tokens.
        layers, heads: Of the transformer.
        frequencies: Waves per axis of coordinates.
        pair_frequencies: Waves per axis of coordinate differences.
        gaussians: Of pair distances.
        pair_hidden: Width of the pair MLP.
        shared_bias: One bias for all layers, or (as published for CSP) one for each.
        descriptors: Elements by embedding and descriptors; off: one-hot and an MLP, as published.
        noise_features: Sinusoids of the noise level.
        roles: Show every atom the number of atoms of the crystal and of its element, and the rank of its
            element (see `frames`); as published, attention has to count.
        pair_values: Attention also gathers what it sees of the pairs (differences, distances), not only what
            it sees of the other atoms; as published, pairs decide only where to look.
    """

    width: int = 1024
    layers: int = 14
    heads: int = 16
    frequencies: int = 32
    pair_frequencies: int = 12
    gaussians: int = 32
    pair_hidden: int = 256
    shared_bias: bool = False
    descriptors: bool = False
    noise_features: int = 256
    roles: bool = False
    pair_values: bool = False


SMALL = TransformerSize(
    width=192,
    layers=4,
    heads=8,
    frequencies=16,
    pair_frequencies=8,
    gaussians=16,
    pair_hidden=64,
    shared_bias=True,
    descriptors=True,
    roles=True,
    pair_values=True,
)
PUBLISHED = TransformerSize()


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, outputs))


def zeroed(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class CrystalTransformer(nn.Module):
    """Corrections of coordinates and cell numbers from noisy ones.

    Args:
        size: See `TransformerSize`.
        coordinate_outputs: Numbers that answer for the coordinates of an atom.
    """

    def __init__(self, size: TransformerSize, *, coordinate_outputs: int = 3) -> None:
        super().__init__()
        self.size = size
        width = size.width
        self.elements: nn.Module
        if size.descriptors:
            self.elements = ElementEmbedding(width, descriptors=True)
        else:
            self.elements = OneHotElements(width)
        self.roles = Roles(width) if size.roles else None
        self.coordinates = mlp(6 * size.frequencies, width, width)
        self.cell = mlp(6, width, width)
        self.segments = nn.Parameter(torch.randn(2, width) * 0.02)
        self.condition = mlp(2 * size.noise_features, width, width)
        features = pair_features(size)
        self.pairs = (
            nn.Sequential(nn.Linear(features, size.pair_hidden), nn.SiLU()) if size.pair_values else None
        )
        gathered = size.pair_hidden if size.pair_values else 0
        self.blocks = nn.ModuleList(Block(width, size.heads, gathered) for _ in range(size.layers))
        self.biases = nn.ModuleList(GeometryBias(size) for _ in range(1 if size.shared_bias else size.layers))
        self.norm = nn.LayerNorm(width)
        self.coordinate_head = nn.Linear(width, coordinate_outputs)
        self.cell_head = nn.Linear(width, 6)

    def forward(
        self,
        kinds: Tensor,
        frac: Tensor,
        cell_numbers: Tensor,
        lattice: Tensor,
        sigma: Tensor,
        *,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs for coordinates [b, n, coordinate_outputs] and cell [b, 6], and atoms [b, n, width].

        Args:
            kinds: Atomic numbers [b, n], or chances of them where elements are not known [b, n, 101].
            frac: Noisy coordinates in [0, 1).  # [b, n, 3]
            cell_numbers: Noisy cell numbers, scaled by c_in.  # [b, 6]
            lattice: The noisy cell they stand for, clamped, Å.  # [b, 3, 3]
            sigma: Noise level.  # [b]
            extra: Added to the tokens of the atoms.  # [b, n, width]
        """
        atoms = self.elements(kinds) + self.coordinates(waves(frac, self.size.frequencies, first=1))
        cell = self.cell(cell_numbers)
        if self.roles is not None:
            role, size = self.roles(kinds)
            atoms, cell = atoms + role, cell + size
        if extra is not None:
            atoms = atoms + extra
        tokens = torch.cat([atoms + self.segments[0], (cell + self.segments[1])[:, None]], dim=1)
        condition = self.condition(noise_features(sigma, self.size.noise_features))
        pairs, distance = pair_geometry(frac, lattice, self.size)
        # No pair has the cell token in it.
        values = None if self.pairs is None else nn.functional.pad(self.pairs(pairs), (0, 0, 0, 1, 0, 1))
        bias: Tensor | None = None
        for i, block in enumerate(self.blocks):
            if bias is None or not self.size.shared_bias:
                bias = self.biases[min(i, len(self.biases) - 1)](pairs, distance, sigma)
            tokens = block(tokens, condition, bias, values)
        tokens = self.norm(tokens)
        atoms = tokens[:, :-1]
        return (
            self.coordinate_head(atoms).to(frac.dtype),
            self.cell_head(tokens[:, -1]).to(frac.dtype),
            atoms,
        )


class Block(nn.Module):
    """Attention and MLP, each behind a LayerNorm that the condition shifts and scales, and a gate.

    Args:
        width: Of tokens.
        heads: Of attention.
        gathered: Features of pairs that attention gathers beside the values; 0 for none.
    """

    def __init__(self, width: int, heads: int, gathered: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Sequential(nn.SiLU(), zeroed(nn.Linear(width, 6 * width)))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.pair_out = nn.Linear(heads * gathered, width, bias=False) if gathered else None
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor, condition: Tensor, bias: Tensor, pairs: Tensor | None) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        h = self.norm(tokens) * (1 + scale) + shift
        tokens = tokens + gate * self._attend(h, bias, pairs)
        h = self.norm(tokens) * (1 + scale2) + shift2
        return tokens + gate2 * self.feed(h)

    def _attend(self, h: Tensor, bias: Tensor, pairs: Tensor | None) -> Tensor:
        b, m, width = h.shape
        q, k, v = self.qkv(h).view(b, m, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if self.pair_out is None:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
            return self.out(mixed.transpose(1, 2).reshape(b, m, width))
        assert pairs is not None
        weight = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + bias, dim=-1)  # [b, heads, m, m]
        mixed = (weight.to(v.dtype) @ v).transpose(1, 2).reshape(b, m, width)
        seen = weight.transpose(1, 2).to(pairs.dtype) @ pairs  # [b, m, heads, gathered]
        return self.out(mixed) + self.pair_out(seen.flatten(2))


class GeometryBias(nn.Module):
    """Bias of attention between atoms, per head: gate(σ) · (−slope · distance + MLP(pair)).

    The gate sigmoid(softplus(α)(−ln σ) + β) starts at 1/(1 + σ).
    """

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        one = math.log(math.e - 1)  # softplus(one) = 1
        self.slope = nn.Parameter(torch.full((size.heads,), one))
        self.gate_slope = nn.Parameter(torch.full((size.heads,), one))
        self.gate_shift = nn.Parameter(torch.zeros(size.heads))
        self.edge = nn.Sequential(
            nn.Linear(pair_features(size), size.pair_hidden),
            nn.SiLU(),
            zeroed(nn.Linear(size.pair_hidden, size.heads)),
        )

    def forward(self, pairs: Tensor, distance: Tensor, sigma: Tensor) -> Tensor:
        """Bias with a row and a column of zeros for the cell token.  # [b, heads, n + 1, n + 1]"""
        n = distance.shape[1]
        off_diagonal = 1 - torch.eye(n, device=distance.device)
        edge = self.edge(pairs).to(distance.dtype) * off_diagonal[:, :, None]
        bias = edge - nn.functional.softplus(self.slope) * distance[..., None]  # [b, n, n, heads]
        strength = nn.functional.softplus(self.gate_slope)
        gate = torch.sigmoid(-strength * sigma.log()[:, None] + self.gate_shift)  # [b, heads]
        bias = torch.nan_to_num(bias).permute(0, 3, 1, 2) * gate[:, :, None, None]
        return nn.functional.pad(bias, (0, 1, 0, 1))


class OneHotElements(nn.Module):
    """An MLP of the one-hot element, as published."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = mlp(MAX_NUMBER + 1, width, width)

    def forward(self, kinds: Tensor) -> Tensor:
        if kinds.dim() == 2:
            kinds = nn.functional.one_hot(kinds, MAX_NUMBER + 1).float()
        return self.net(kinds)


class Roles(nn.Module):
    """What an atom is in its composition: learned vectors for n, the count of its element and its rank."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.size = nn.Embedding(MAX_ATOMS + 1, width)
        self.count = nn.Embedding(MAX_ATOMS + 1, width)
        self.rank = nn.Embedding(MAX_ATOMS, width)

    def forward(self, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Of atoms [b, n, width], and of the crystal [b, width]; for chances, of what is to be expected."""
        b, n = kinds.shape[:2]
        size = self.size(torch.full((b,), n, device=kinds.device))
        if kinds.dim() == 2:
            rank, count = (torch.from_numpy(part).to(kinds.device) for part in ranks(kinds.cpu().numpy()))
            return self.count(count) + self.rank(rank) + size[:, None], size
        rank, count = expected_ranks(kinds)
        return between(self.count, count) + between(self.rank, rank) + size[:, None], size


@torch.no_grad()
def expected_ranks(chances: Tensor) -> tuple[Tensor, Tensor]:
    """`frames.ranks` of atoms whose elements have chances: those of the elements where these are certain.

    # [b, n, 101] -> [b, n], [b, n]
    """
    with torch.autocast(chances.device.type, enabled=False):
        chances = chances.float()
        same = chances @ chances.mT  # chance that two atoms are of one element
        place = chances @ torch.from_numpy(electropositivity()[: chances.shape[-1]]).to(chances)
    same.diagonal(dim1=1, dim2=2).fill_(1)
    count = same.sum(dim=2)
    key = torch.round(count) * len(electropositivity()) + place
    smaller = (1 - same) * (key[:, None] < key[:, :, None]) / count[:, None]
    return smaller.sum(dim=2), count


def between(table: nn.Embedding, place: Tensor) -> Tensor:
    """Rows of a table at places between them, linearly.  # [b, n] -> [b, n, width]"""
    last = table.num_embeddings - 1
    below = place.floor().long().clamp(0, last)
    share = (place - below)[..., None].clamp(0, 1)
    return torch.lerp(table(below), table((below + 1).clamp(max=last)), share)


def noise_features(sigma: Tensor, width: int) -> Tensor:
    """cos and sin of 2πω c_noise, c_noise = ¼ ln σ, ω = 10000^(−i/(width/2)), twice over.  # [b, 2 width]"""
    half = width // 2
    omega = 1e4 ** (-torch.arange(half, device=sigma.device, dtype=sigma.dtype) / half)
    angle = 2 * math.pi * (0.25 * sigma.log())[:, None] * omega
    once = torch.cat([angle.cos(), angle.sin()], dim=-1)
    return torch.cat([once, once], dim=-1)


def pair_features(size: TransformerSize) -> int:
    """Numbers that `pair_geometry` tells of a pair."""
    return 6 * size.pair_frequencies + size.gaussians + 6


@torch.no_grad()
def pair_geometry(frac: Tensor, lattice: Tensor, size: TransformerSize) -> tuple[Tensor, Tensor]:
    """What the bias sees of each pair of atoms, and their distance over the mean cell length.

    # [b, n, n, 6 pair_frequencies + gaussians + 6], [b, n, n]
    """
    n = frac.shape[1]
    difference = wrap(frac[:, :, None, :] - frac[:, None, :, :])
    lengths, angles = lengths_and_angles(lattice)
    distance = nearest_distance(difference, lattice) / lengths.mean(dim=-1)[:, None, None]
    centres = torch.linspace(0, LAST_GAUSSIAN, size.gaussians, device=frac.device)
    spacing = LAST_GAUSSIAN / (size.gaussians - 1)
    gaussians = torch.exp(-(((distance[..., None] - centres) / spacing) ** 2))
    shape = torch.cat([lengths.log(), angles.cos()], dim=-1)[:, None, None].expand(-1, n, n, -1)
    pairs = torch.cat([waves(difference, size.pair_frequencies, first=1), gaussians, shape], dim=-1)
    return torch.nan_to_num(pairs), torch.nan_to_num(distance)
