"""Policies and their optimisers as bytes: safetensors, never pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.features import element_features
from anchor.config import Policy
from anchor.errors import InputError
from anchor.policy.network import CompositionPolicy

FORMAT = "anchor-policy-1"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
"""Adam's memory of each parameter."""


def make_optimiser(policy: CompositionPolicy, learning_rate: float) -> torch.optim.Adam:
    """The paper's Adam over the policy's parameters."""
    return torch.optim.Adam(policy.parameters(), lr=learning_rate, fused=True)


def save(
    policy: CompositionPolicy,
    optimiser: torch.optim.Adam | None = None,
    settings: Mapping[str, Any] | None = None,
) -> bytes:
    """Weights, and the optimiser's moments and the settings of the training when they are given.

    Equal states give equal bytes.
    """
    tensors = {f"policy.{name}": tensor for name, tensor in policy.state_dict().items()}
    if optimiser is not None:
        for name, parameter in policy.named_parameters():
            for moment, value in optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{name}.{moment}"] = value
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"anchor": _card(policy)} | ({} if settings is None else {"settings": settings})
    texts = {name: json.dumps(value, sort_keys=True) for name, value in header.items()}
    return save_tensors(contiguous, metadata=texts)


def settings_in(data: bytes) -> dict[str, Any] | None:
    """The settings that `save` was given, None if there are none."""
    text = _header(data).get("settings")
    return None if text is None else json.loads(text)


def load_policy(data: bytes) -> CompositionPolicy:
    """The policy of `save`, on the CPU.

    Raises:
        InputError: The bytes are no policy, or one for another vocabulary or other element descriptors.
    """
    card, tensors = _read(data)
    policy = CompositionPolicy(Policy(**card["sizes"]), n_objectives=card["n_objectives"])
    weights = {n.removeprefix("policy."): t for n, t in tensors.items() if n.startswith("policy.")}
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"the policy file is damaged: {error}") from None
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
        "sizes": policy.config.model_dump(include={"state_dim", "hidden_dim", "element_embedding"}),
        "vocabulary": " ".join(VOCABULARY),
        "descriptors": hashlib.sha256(element_features().tobytes()).hexdigest(),
    }


def _header(data: bytes) -> dict[str, str]:
    """Texts in the header of a safetensors file: its length (8 bytes), then JSON."""
    texts: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return texts


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Card and tensors, checked."""
    try:
        tensors = load_tensors(data)
        card = json.loads(_header(data)["anchor"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"not a policy file: {error}", "expected weights saved by anchor") from None
    if card.get("format") != FORMAT:
        raise InputError(f"policy of format {card.get('format')!r}, this version reads '{FORMAT}'")
    if card["vocabulary"] != " ".join(VOCABULARY):
        raise InputError("the policy was made for another element vocabulary")
    if card["descriptors"] != hashlib.sha256(element_features().tobytes()).hexdigest():
        raise InputError("the policy was made with other element descriptors (eq:element-feat)")
    return card, tensors
