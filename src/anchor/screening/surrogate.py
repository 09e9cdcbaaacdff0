"""Formation energy of a composition without any crystal: a small ensemble of pairwise networks.

    surrogate = load_surrogate()
    energy, spread = surrogate.predict(compositions)  # eV/atom, a column for each of DATABASES

The energy is a sum over pairs of elements, E = Σ_{i<j} x_i x_j f(i, j, all others). So it does not depend on
the order of the elements, and it is exactly zero for a pure element, as formation energies are. It is the
lowest energy that a database is expected to know at this composition, and nothing more: `spread` says how far
the members disagree, calibrated so that two thirds of held-out neutral formulas lie within one of it. OQMD
and the Materials Project are on different scales, so that each has its own output; all else is shared.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.features import element_features
from anchor.errors import InputError, MissingDependencyError
from anchor.paths import BUNDLED
from anchor.policy.actions import to_actions
from anchor.policy.network import linear
from anchor.random import torch_generator
from anchor.weights import made_of_card, pack, unpack

FORMAT = "anchor-surrogate-2"
SHIPPED = BUNDLED / "screening" / "surrogate.safetensors"
"""The surrogate that ships."""
DATABASES = ("oqmd", "mp")
"""Whose energies the outputs are, in order."""
CHUNK = 1024
"""Compositions per call of the network: what fits the processor's cache is 1.6 times as fast."""


@dataclass(frozen=True)
class Sizes:
    """Size of one member.

    Attributes:
        embedding: Numbers that describe an element.
        width: Width of the pair function's layers.
        layers: Its hidden layers after the first.
    """

    embedding: int = 32
    width: int = 192
    layers: int = 2


class PairNetwork(nn.Module):
    """E(c) = Σ_{i<j} x_i x_j f_ij, eV/atom, f having one output per database.

    The first layer of f sees both elements, which of them is the more abundant, and the mean of all elements
    of the composition. It is linear in element embeddings, so it is a weighted sum of rows of a table, looked
    up in one go, instead of matrix products for every pair.

    Args:
        sizes: Of the network.
        seed, member: Of the initial weights.
    """

    def __init__(self, sizes: Sizes, *, seed: int = 0, member: int = 0) -> None:
        super().__init__()
        stream = torch_generator(seed, "surrogate", member)
        features = torch.from_numpy(element_features().copy())
        features = (features - features.mean(0)) / features.std(0).clamp(min=1e-3)
        width = sizes.width
        # Alike elements start alike: the embedding is a random projection of the 38 descriptors.
        mix = torch.randn(features.shape[1], sizes.embedding, generator=stream) / math.sqrt(features.shape[1])
        self.embedding = nn.Parameter(features @ mix)
        self.both = linear(sizes.embedding, width, stream)
        self.difference = linear(sizes.embedding, width, stream)
        self.others = linear(sizes.embedding, width, stream)
        self.amounts = linear(3, width, stream)
        self.hidden = nn.ModuleList(linear(width, width, stream) for _ in range(sizes.layers))
        self.last = linear(width, len(DATABASES), stream)

    def forward(self, elements: Tensor, fractions: Tensor) -> Tensor:
        """Formation energies, eV/atom.

        Args:
            elements: Vocabulary indices, −1 where there is none.  # [n, m]
            fractions: Atomic fractions, 0 where there is no element.  # [n, m]

        Returns: # [n, databases]
        """
        n, m = elements.shape
        first, second = torch.triu_indices(m, m, 1, device=elements.device)
        row, pair = torch.nonzero((fractions[:, first] > 0) & (fractions[:, second] > 0), as_tuple=True)
        i, j = elements[row, first[pair]], elements[row, second[pair]]  # [pairs]
        x, y = fractions[row, first[pair]], fractions[row, second[pair]]
        gap, one = x - y, torch.ones_like(x)
        size = len(self.embedding)
        table = torch.cat(
            [
                self.both(self.embedding),
                self.difference(self.embedding),
                nn.functional.linear(self.embedding, self.others.weight),
            ]
        )  # [3 * 84, width]
        places = torch.stack([i, j, size + i, size + j], dim=1)
        places = torch.cat([places, 2 * size + elements[row].clamp(min=0)], dim=1)
        shares = torch.cat([torch.stack([one, one, gap, -gap], dim=1), fractions[row]], dim=1)
        h = nn.functional.embedding_bag(places, table, mode="sum", per_sample_weights=shares)
        h = h + self.others.bias + self.amounts(torch.stack([x + y, x * y, gap**2], dim=-1))
        h = nn.functional.silu(h)
        for layer in self.hidden:
            h = h + nn.functional.silu(layer(h))
        terms = (4 * x * y)[:, None] * self.last(h)
        return terms.new_zeros(n, len(DATABASES)).index_add(0, row, terms)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A trained ensemble.

    Attributes:
        members: Networks of one size, trained from different seeds.
        floor: Spread where all members agree, eV/atom, by database.
        scale: What their standard deviation is multiplied with, by database.
        card: Where it comes from and how good it is.
    """

    members: Sequence[PairNetwork]
    floor: tuple[float, ...]
    scale: tuple[float, ...]
    card: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, compositions: Compositions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Formation energies and their spreads, eV/atom.  # [n, databases] each"""
        elements, counts = to_actions(compositions)
        values = member_energies(self.members, elements, counts / counts.sum(axis=1, keepdims=True))
        return values.mean(axis=0), calibrated_spread(values, floor=self.floor, scale=self.scale)


def calibrated_spread(
    values: NDArray[np.float64], *, floor: float | Sequence[float], scale: float | Sequence[float]
) -> NDArray[np.float64]:
    """σ = √(floor² + (scale · std)²) of the members' energies, eV/atom.

    Args:
        values: By every member.  # [members, n, databases], or [members, n] of one database

    Returns: # [n, databases] or [n]
    """
    return np.hypot(np.asarray(floor), np.asarray(scale) * values.std(axis=0))


@torch.no_grad()
def member_energies(
    members: Sequence[PairNetwork], elements: NDArray[np.int64], fractions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Energies by every member, eV/atom.

    Args:
        elements: Vocabulary indices, −1 where there is none.  # [n, m]
        fractions: Atomic fractions.  # [n, m]

    Returns: # [members, n, databases]
    """
    values = np.zeros((len(members), len(elements), len(DATABASES)))
    for a in range(0, len(elements), CHUNK):
        rows = slice(a, a + CHUNK)
        inputs = torch.from_numpy(elements[rows]), torch.from_numpy(fractions[rows]).float()
        for k, member in enumerate(members):
            values[k, rows] = member(*inputs).double().numpy()
    return values


def save_surrogate(
    members: Sequence[PairNetwork],
    sizes: Sizes,
    *,
    floor: Sequence[float],
    scale: Sequence[float],
    card: Mapping[str, Any],
) -> bytes:
    """The ensemble as safetensors with half-precision weights and its card inside."""
    tensors = {
        f"{k}.{name}": tensor.half()
        for k, member in enumerate(members)
        for name, tensor in member.state_dict().items()
    }
    header = {
        "format": FORMAT,
        "sizes": asdict(sizes),
        "members": len(members),
        "floor": list(floor),
        "scale": list(scale),
        "databases": list(DATABASES),
        "vocabulary": " ".join(VOCABULARY),
        "card": dict(card),
    }
    return pack(tensors, header)


def read_surrogate(data: bytes) -> Surrogate:
    """The ensemble of `save_surrogate`.

    Raises:
        InputError: The bytes are no surrogate, or one for another vocabulary.
    """
    header, tensors = unpack(data, what="surrogate file", hint="make one with: anchor policy surrogate")
    if header.get("format") != FORMAT:
        raise InputError(
            f"surrogate of format {header.get('format')!r}, this version reads '{FORMAT}'",
            "make one with: anchor policy surrogate",
        )
    if header.get("vocabulary") != " ".join(VOCABULARY):
        raise InputError("the surrogate was made for another element vocabulary")
    members = []
    with made_of_card("surrogate file"):
        for k in range(header["members"]):
            member = PairNetwork(Sizes(**header["sizes"]))
            weights = {n.split(".", 1)[1]: t.float() for n, t in tensors.items() if n.startswith(f"{k}.")}
            member.load_state_dict(weights)
            members.append(member.eval().requires_grad_(False))
        return Surrogate(members, tuple(header["floor"]), tuple(header["scale"]), header["card"])


@cache
def load_surrogate(path: Path = SHIPPED) -> Surrogate:
    """The surrogate of a file; by default the one that ships."""
    if not path.is_file():
        raise MissingDependencyError(
            f"there is no surrogate '{path}'", "train one: anchor policy surrogate --out FILE"
        )
    return read_surrogate(path.read_bytes())


def surrogate_hash(surrogate: Surrogate) -> str:
    """SHA-256 over the weights and the calibration of the spread."""
    digest = hashlib.sha256(json.dumps([surrogate.floor, surrogate.scale]).encode())
    for member in surrogate.members:
        for name, tensor in member.state_dict().items():
            digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()
