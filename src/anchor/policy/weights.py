"""Policies and their optimisers as bytes: safetensors, never pickles."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.features import element_features
from anchor.config import Policy
from anchor.errors import InputError
from anchor.policy.network import CompositionPolicy
from anchor.weights import made_of_card, pack, unpack

FORMAT = "anchor-policy-1"
SIZES = {"state_dim", "hidden_dim", "element_embedding", "heads"}
"""Settings that decide which weights there are; older files lack `heads`."""
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
"""Adam's memory of each parameter."""
EARLIER = "earlier."
"""Prefix of weights that a policy had some updates ago."""
MEMORY = "memory."
"""Prefix of what a learner remembers beside its policy."""


def make_optimiser(policy: CompositionPolicy, learning_rate: float) -> torch.optim.Adam:
    """The paper's Adam over the policy's parameters."""
    return torch.optim.Adam(policy.parameters(), lr=learning_rate, fused=True)


def save(
    policy: CompositionPolicy,
    optimiser: torch.optim.Adam | None = None,
    settings: Mapping[str, Any] | None = None,
    earlier: Sequence[Mapping[str, Tensor]] = (),
    memory: Mapping[str, NDArray[Any]] | None = None,
) -> bytes:
    """Weights; the optimiser's moments, settings of the training, earlier weights, a memory when given.

    Equal states give equal bytes.
    """
    tensors = {f"policy.{name}": tensor for name, tensor in policy.state_dict().items()}
    if optimiser is not None:
        for name, parameter in policy.named_parameters():
            for moment, value in optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{name}.{moment}"] = value
    for i, weights in enumerate(earlier):
        tensors |= {f"{EARLIER}{i}.{name}": tensor for name, tensor in weights.items()}
    tensors |= {f"{MEMORY}{name}": torch.from_numpy(array) for name, array in (memory or {}).items()}
    return pack(tensors, _card(policy) | ({} if settings is None else {"settings": settings}))


def earlier_in(data: bytes) -> list[dict[str, Tensor]]:
    """The earlier weights that `save` was given, in their order."""
    found: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _read(data)[1].items():
        if key.startswith(EARLIER):
            place, _, name = key.removeprefix(EARLIER).partition(".")
            found.setdefault(int(place), {})[name] = tensor
    return [found[i] for i in sorted(found)]


def memory_in(data: bytes) -> dict[str, NDArray[Any]]:
    """The memory that `save` was given."""
    tensors = _read(data)[1].items()
    return {key.removeprefix(MEMORY): t.numpy() for key, t in tensors if key.startswith(MEMORY)}


def settings_in(data: bytes) -> dict[str, Any] | None:
    """The settings that `save` was given, None if there are none."""
    return _read(data)[0].get("settings")


def load_policy(data: bytes) -> CompositionPolicy:
    """The policy of `save`, on the CPU.

    Raises:
        InputError: The bytes are no policy, or one for another vocabulary or other element descriptors.
    """
    card, tensors = _read(data)
    weights = {n.removeprefix("policy."): t for n, t in tensors.items() if n.startswith("policy.")}
    with made_of_card("policy file"):
        policy = CompositionPolicy(Policy(**card["sizes"]), n_objectives=card["n_objectives"])
        policy.load_state_dict(weights)
    if broken := [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]:
        raise InputError(
            f"the policy has weights that are not finite: {broken[0]}",
            "take an earlier one; this one diverged",
        )
    return policy.to(weights["embedding"].dtype)


def load(
    data: bytes, *, learning_rate: float, device: torch.device | str = "cpu"
) -> tuple[CompositionPolicy, torch.optim.Adam]:
    """Policy and optimiser of `save`, so that learning goes on as if it had never stopped."""
    policy = load_policy(data).to(device)
    optimiser = make_optimiser(policy, learning_rate)
    _, tensors = _read(data)
    for name, parameter in policy.named_parameters():
        keys = {moment: f"adam.{name}.{moment}" for moment in MOMENTS}
        if keys["step"] in tensors:
            optimiser.state[parameter] = {m: tensors[key].to(device) for m, key in keys.items()}
    return policy, optimiser


def _card(policy: CompositionPolicy) -> dict[str, Any]:
    """What a policy needs beside its weights, and what it was made for."""
    return {
        "format": FORMAT,
        "n_objectives": policy.n_objectives,
        "sizes": policy.config.model_dump(include=SIZES),
        "vocabulary": " ".join(VOCABULARY),
        "descriptors": hashlib.sha256(element_features().tobytes()).hexdigest(),
    }


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Card and tensors, checked."""
    card, tensors = unpack(data, what="policy file", hint="expected weights saved by anchor")
    if card.get("format") != FORMAT:
        raise InputError(f"policy of format {card.get('format')!r}, this version reads '{FORMAT}'")
    if card.get("vocabulary") != " ".join(VOCABULARY):
        raise InputError("the policy was made for another element vocabulary")
    if card.get("descriptors") != hashlib.sha256(element_features().tobytes()).hexdigest():
        raise InputError("the policy was made with other element descriptors (eq:element-feat)")
    return card, tensors
