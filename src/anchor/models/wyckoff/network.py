"""The network of the wyckoff prior: p(crystal | atoms) as a product of small choices.

    p(group | atoms) · Π over orbits [p(position | before) · Π p(free coordinate | before)] · p(cell | all)

A transformer reads the elements with their counts, then one token per choice made so far. The element of an
orbit is not a choice: elements come in a fixed order, each until all its atoms are placed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anchor.models.data import MAX_NUMBER
from anchor.models.network import ElementEmbedding
from anchor.models.wyckoff.tables import N_GROUPS, Tables, tables

MOST_ATOMS = 20
BINS = 120
"""Free coordinates are multiples of 1/120 to the network, and interpolated when sampled."""
_SMEAR = 0.8  # bins; standard deviation of the target around a coordinate
_WAVES = 4


@dataclass(frozen=True)
class WyckoffSize:
    """Size of a WyckoffNet.

    Attributes:
        width, layers, heads: Of the transformer.
        dropout: Share of features dropped in training.
        cells: Gaussians in the mixture for the cell.
    """

    width: int = 192
    layers: int = 4
    heads: int = 6
    dropout: float = 0.2
    cells: int = 8


SMALL = WyckoffSize()


@dataclass(frozen=True, eq=False)
class Sequences:
    """b crystals, or beginnings of crystals, padded; slots are places in the order of elements.

    Attributes:
        elements: Atomic numbers in order, 0 where there are no more.  # [b, k]
        counts: Atoms of each in the primitive cell.  # [b, k]
        group: Space group number − 1.  # [b]
        slot: Element of each orbit and, after the last, of the orbit to come; −1 when all is placed.
            # [b, s + 1]
        left: Atoms of that element still to place, this orbit's included.  # [b, s + 1]
        position: Row of the tables; 0 beyond the last orbit.  # [b, s]
        free: Free coordinates; 0 where there are none.  # [b, s, 3]
        length: Number of orbits.  # [b]
        cell: Standardised cell numbers.  # [b, 6]
    """

    elements: Tensor
    counts: Tensor
    group: Tensor
    slot: Tensor
    left: Tensor
    position: Tensor
    free: Tensor
    length: Tensor
    cell: Tensor

    def __len__(self) -> int:
        return len(self.group)

    def to(self, device: str | torch.device) -> Sequences:
        return Sequences(*(getattr(self, f.name).to(device) for f in fields(self)))


class WyckoffNet(nn.Module):
    """Distributions of the next choice."""

    multiplicity: Tensor
    freedom: Tensor
    point: Tensor
    directions: Tensor
    members: Tensor
    free_cell: Tensor

    def __init__(self, size: WyckoffSize, known: Tables | None = None) -> None:
        super().__init__()
        known = tables() if known is None else known
        self.size = size
        d = size.width
        for name in ("multiplicity", "freedom", "point", "directions", "members", "free_cell"):
            value = torch.from_numpy(np.ascontiguousarray(getattr(known, name)))
            self.register_buffer(
                name, value.float() if value.is_floating_point() else value, persistent=False
            )
        self.elements = ElementEmbedding(d, descriptors=True)
        self.count = nn.Embedding(MOST_ATOMS + 1, d)
        self.total = nn.Embedding(MOST_ATOMS + 1, d)
        self.rank = nn.Embedding(MOST_ATOMS, d)
        self.start = nn.Parameter(torch.zeros(d))
        self.done = nn.Parameter(torch.zeros(d))
        self.group = nn.Embedding(N_GROUPS, d)
        self.position = nn.Embedding(len(known.multiplicity), d)
        self.kind = nn.Sequential(nn.Linear(4 + 1 + 6 + 9, d), nn.SiLU(), nn.Linear(d, d))
        self.left = nn.Embedding(MOST_ATOMS + 1, d)
        self.coordinates = nn.Linear(12 * _WAVES, d)
        self.blocks = nn.ModuleList(Block(d, size.heads, size.dropout) for _ in range(size.layers))
        self.norm = nn.LayerNorm(d)
        self.group_head = nn.Linear(d, N_GROUPS)
        self.query = nn.Linear(d, d)
        self.free_in = nn.ModuleList(nn.Linear(2 * d + 2 * _WAVES * i, d) for i in range(3))
        self.free_out = nn.ModuleList(nn.Linear(d, BINS) for _ in range(3))
        self.cell_head = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, size.cells * 13))
        self.drop = nn.Dropout(size.dropout)
        for table in (self.count, self.total, self.rank, self.group, self.position, self.left):
            nn.init.normal_(table.weight, std=0.1)

    def position_features(self) -> Tensor:
        """An embedding of every position: its own, and of what kind it is.  # [1731, d]"""
        features = torch.cat(
            [
                functional.one_hot(self.freedom, 4).float(),
                self.multiplicity.float().log()[:, None],
                torch.cos(2 * math.pi * self.point),
                torch.sin(2 * math.pi * self.point),
                self.directions.flatten(1),
            ],
            dim=1,
        )
        return self.position.weight + self.kind(features)

    def hidden(self, seq: Sequences, features: Tensor) -> Tensor:
        """Features after each choice: before any, after the group, after each orbit.  # [b, s + 2, d]

        Args:
            features: Of `position_features`.
        """
        b, k = seq.elements.shape
        s = seq.position.shape[1]
        present = seq.elements > 0
        total = seq.counts.sum(1)
        atoms = self.elements(seq.elements.clamp(min=1, max=MAX_NUMBER))
        atoms = atoms + self.count(seq.counts) + self.rank.weight[:k] + self.total(total)[:, None]
        group = self.group(seq.group)[:, None]
        done = seq.slot < 0
        element = torch.gather(
            atoms, 1, seq.slot.clamp(min=0)[:, :, None].expand(-1, -1, atoms.shape[-1])
        )  # [b, s + 1, d]
        coming = torch.where(done[:, :, None], self.done, element + self.left(seq.left))
        where = torch.einsum("bsf,bsfx->bsx", seq.free, self.directions[seq.position])
        where = where + self.point[seq.position]
        orbit = (
            features[seq.position]
            + element[:, :s]
            + self.coordinates(torch.cat([_waves(seq.free), _waves(where)], dim=-1))
        )
        before = functional.pad(orbit, (0, 0, 1, 0))  # what was just chosen
        choices = torch.cat([self.start.expand(b, 1, -1), group + coming + before], dim=1)  # [b, s + 2, d]
        tokens = self.drop(torch.cat([atoms, choices], dim=1))
        mask = self._mask(present, s + 2)
        for block in self.blocks:
            tokens = block(tokens, mask)
        return self.norm(tokens[:, k:])

    def _mask(self, present: Tensor, choices: int) -> Tensor:
        """Who sees whom: elements each other, choices the elements and the choices before.  # [b, 1, m, m]"""
        b, k = present.shape
        m = k + choices
        order = torch.ones(m, m, dtype=torch.bool, device=present.device).tril()
        order[:k, :k] = True
        order[:k, k:] = False
        seen = torch.cat([present, present.new_ones(b, choices)], dim=1)
        mask = order & seen[:, None, :]
        # Padding sees itself, so that no row is empty.
        return (mask | torch.eye(m, dtype=torch.bool, device=present.device))[:, None]

    def position_logits(self, hidden: Tensor, group: Tensor, features: Tensor) -> Tensor:
        """Scores of the positions of each crystal's group.  # [b, s, d], [b] -> [b, s, 27]"""
        members = self.members[group]  # [b, 27]
        keys = features[members.clamp(min=0)]
        logits = torch.einsum("bsd,bmd->bsm", self.query(hidden), keys) / math.sqrt(self.size.width)
        return logits.float().masked_fill(members[:, None] < 0, -torch.inf)

    def free_logits(self, hidden: Tensor, chosen: Tensor, free: Tensor, axis: int) -> Tensor:
        """Scores of the bins of one free coordinate, given those before it.

        Args:
            hidden: Before the orbit.  # [..., d]
            chosen: Features of its position.  # [..., d]
            free: Its coordinates; those from `axis` on are not looked at.  # [..., 3]
            axis: 0, 1 or 2.
        """
        parts = [hidden, chosen]
        if axis:
            parts.append(_waves(free[..., :axis]).to(hidden.dtype))
        return self.free_out[axis](functional.silu(self.free_in[axis](torch.cat(parts, dim=-1)))).float()

    def cell_mixture(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights [b, c], means and log-deviations [b, c, 6] of the standardised cell numbers."""
        raw = self.cell_head(hidden).float().unflatten(-1, (self.size.cells, 13))
        return raw[..., 0].log_softmax(-1), raw[..., 1:7], raw[..., 7:].clamp(-5, 2)

    def losses(self, seq: Sequences) -> dict[str, Tensor]:
        """Negative log-likelihoods of groups, positions, coordinates, cells; nats, summed over crystals."""
        features = self.position_features()
        hidden = self.hidden(seq, features)
        b, s = seq.position.shape
        real = torch.arange(s, device=seq.group.device) < seq.length[:, None]
        group = functional.cross_entropy(self.group_head(hidden[:, 0]).float(), seq.group, reduction="sum")
        at = hidden[:, 1 : s + 1]
        position = -self.position_log_p(hidden, seq, features).sum()
        free = at.new_zeros((), dtype=torch.float32)
        kinds = features[seq.position]
        for axis in range(3):
            used = real & (self.freedom[seq.position] > axis)
            if used.any():
                scores = self.free_logits(at[used], kinds[used], seq.free[used], axis)
                free = free - (_smeared(seq.free[used][:, axis]) * scores.log_softmax(-1)).sum()
        last = hidden[torch.arange(b), seq.length + 1]
        weights, means, spreads = self.cell_mixture(last)
        gap = (seq.cell[:, None] - means) * torch.exp(-spreads)
        terms = -0.5 * gap**2 - spreads - 0.5 * math.log(2 * math.pi)
        log_cell = (terms * self.free_cell[seq.group][:, None]).sum(-1) + weights
        return {
            "group": group,
            "positions": position,
            "coordinates": free,
            "cell": -log_cell.logsumexp(-1).sum(),
        }

    def position_log_p(self, hidden: Tensor, seq: Sequences, features: Tensor) -> Tensor:
        """Log-probability of all positions of each crystal, given its group.  # [b]"""
        s = seq.position.shape[1]
        real = torch.arange(s, device=seq.group.device) < seq.length[:, None]
        logits = self.position_logits(hidden[:, 1 : s + 1], seq.group, features)
        logits = logits.masked_fill(~self.allowed(seq), -torch.inf)
        log_p = torch.where(real[:, :, None], logits, 0.0).log_softmax(-1)
        chosen = torch.where(real, seq.position - self.members[seq.group][:, :1], 0)
        return (torch.gather(log_p, 2, chosen[:, :, None])[..., 0] * real).sum(1)

    def allowed(self, seq: Sequences) -> Tensor:
        """Positions that fit at each orbit: not more atoms than are left, points only once.  # [b, s, 27]"""
        members = self.members[seq.group].clamp(min=0)
        s = seq.position.shape[1]
        fits = self.multiplicity[members][:, None] <= seq.left[:, :s, None]
        taken = seq.position[:, :, None] == members[:, None]  # [b, s, 27]
        earlier = taken.long().cumsum(1) - taken.long() > 0
        return fits & ~(earlier & (self.freedom[members] == 0)[:, None])


class Block(nn.Module):
    """Attention and MLP, each after a LayerNorm."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        b, m, width = tokens.shape
        q, k, v = (
            self.qkv(self.norm1(tokens)).view(b, m, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        tokens = tokens + self.drop(self.out(mixed.transpose(1, 2).reshape(b, m, width)))
        return tokens + self.drop(self.feed(self.norm2(tokens)))


def _waves(x: Tensor) -> Tensor:
    """cos and sin of 2π n x, n = 1 … 4.  # [..., c] -> [..., 8 c]"""
    angle = 2 * math.pi * x[..., None] * torch.arange(1, _WAVES + 1, device=x.device)
    return torch.cat([angle.cos(), angle.sin()], dim=-1).flatten(-2)


def _smeared(free: Tensor) -> Tensor:
    """Coordinates as distributions over the bins, a narrow Gaussian on the circle.  # [n] -> [n, BINS]"""
    gap = free[:, None] * BINS - torch.arange(BINS, device=free.device)
    gap = gap - BINS * torch.round(gap / BINS)
    return torch.softmax(-0.5 * (gap / _SMEAR) ** 2, dim=-1)
