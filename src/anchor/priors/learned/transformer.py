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

from anchor.priors.learned.cells import lengths_and_angles, wrap
from anchor.priors.learned.data import MAX_NUMBER
from anchor.priors.learned.network import ElementEmbedding, nearest_distance, waves

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


SMALL = TransformerSize(
    width=192,
    layers=6,
    heads=8,
    frequencies=16,
    pair_frequencies=8,
    gaussians=16,
    pair_hidden=64,
    descriptors=True,
)
PUBLISHED = TransformerSize()


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, outputs))


def zeroed(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class CrystalTransformer(nn.Module):
    """Corrections of coordinates and cell numbers from noisy ones."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.size = size
        width = size.width
        self.elements: nn.Module
        if size.descriptors:
            self.elements = ElementEmbedding(width, descriptors=True)
        else:
            self.elements = OneHotElements(width)
        self.coordinates = mlp(6 * size.frequencies, width, width)
        self.cell = mlp(6, width, width)
        self.segments = nn.Parameter(torch.randn(2, width) * 0.02)
        self.condition = mlp(2 * size.noise_features, width, width)
        self.blocks = nn.ModuleList(Block(width, size.heads) for _ in range(size.layers))
        self.biases = nn.ModuleList(GeometryBias(size) for _ in range(1 if size.shared_bias else size.layers))
        self.norm = nn.LayerNorm(width)
        self.coordinate_head = nn.Linear(width, 3)
        self.cell_head = nn.Linear(width, 6)

    def forward(
        self, numbers: Tensor, frac: Tensor, cell_numbers: Tensor, lattice: Tensor, sigma: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Outputs for coordinates [b, n, 3] and cell [b, 6].

        Args:
            numbers: Atomic numbers.  # [b, n]
            frac: Noisy coordinates in [0, 1).  # [b, n, 3]
            cell_numbers: Noisy cell numbers, scaled by c_in.  # [b, 6]
            lattice: The noisy cell they stand for, clamped, Å.  # [b, 3, 3]
            sigma: Noise level.  # [b]
        """
        atoms = self.elements(numbers) + self.coordinates(waves(frac, self.size.frequencies, first=1))
        tokens = torch.cat(
            [atoms + self.segments[0], (self.cell(cell_numbers) + self.segments[1])[:, None]], dim=1
        )
        condition = self.condition(noise_features(sigma, self.size.noise_features))
        pairs, distance = pair_geometry(frac, lattice, self.size)
        bias: Tensor | None = None
        for i, block in enumerate(self.blocks):
            if bias is None or not self.size.shared_bias:
                bias = self.biases[min(i, len(self.biases) - 1)](pairs, distance, sigma)
            tokens = block(tokens, condition, bias)
        tokens = self.norm(tokens)
        return self.coordinate_head(tokens[:, :-1]).to(frac.dtype), self.cell_head(tokens[:, -1]).to(
            frac.dtype
        )


class Block(nn.Module):
    """Attention and MLP, each behind a LayerNorm that the condition shifts and scales, and a gate."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Sequential(nn.SiLU(), zeroed(nn.Linear(width, 6 * width)))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor, condition: Tensor, bias: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        h = self.norm(tokens) * (1 + scale) + shift
        tokens = tokens + gate * self._attend(h, bias)
        h = self.norm(tokens) * (1 + scale2) + shift2
        return tokens + gate2 * self.feed(h)

    def _attend(self, h: Tensor, bias: Tensor) -> Tensor:
        b, m, width = h.shape
        q, k, v = self.qkv(h).view(b, m, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return self.out(mixed.transpose(1, 2).reshape(b, m, width))


class GeometryBias(nn.Module):
    """Bias of attention between atoms, per head: gate(σ) · (−slope · distance + MLP(pair)).

    The gate sigmoid(softplus(α)(−ln σ) + β) starts at 1/(1 + σ).
    """

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        features = 6 * size.pair_frequencies + size.gaussians + 6
        one = math.log(math.e - 1)  # softplus(one) = 1
        self.slope = nn.Parameter(torch.full((size.heads,), one))
        self.gate_slope = nn.Parameter(torch.full((size.heads,), one))
        self.gate_shift = nn.Parameter(torch.zeros(size.heads))
        self.edge = nn.Sequential(
            nn.Linear(features, size.pair_hidden), nn.SiLU(), zeroed(nn.Linear(size.pair_hidden, size.heads))
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

    def forward(self, numbers: Tensor) -> Tensor:
        return self.net(nn.functional.one_hot(numbers, MAX_NUMBER + 1).float())


def noise_features(sigma: Tensor, width: int) -> Tensor:
    """cos and sin of 2πω c_noise, c_noise = ¼ ln σ, ω = 10000^(−i/(width/2)), twice over.  # [b, 2 width]"""
    half = width // 2
    omega = 1e4 ** (-torch.arange(half, device=sigma.device, dtype=sigma.dtype) / half)
    angle = 2 * math.pi * (0.25 * sigma.log())[:, None] * omega
    once = torch.cat([angle.cos(), angle.sin()], dim=-1)
    return torch.cat([once, once], dim=-1)


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
