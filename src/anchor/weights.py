"""Weights in files: safetensors with a card, a JSON document, in the header. Nothing in them can run code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from anchor.arrays import content_hash
from anchor.errors import InputError, MissingDependencyError
from anchor.reading import json_object
from anchor.writing import replace_file

_KEY = "anchor"  # of the card in the header


def pack(tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> bytes:
    """Tensors and card as bytes; equal content gives equal bytes."""
    # clone: safetensors refuses two names for one memory
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return save_tensors(plain, metadata={_KEY: json.dumps(card, sort_keys=True)})


def unpack(data: bytes, *, what: str, hint: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Card and tensors (on the CPU) of `pack`.

    Args:
        what: Names the bytes in errors.
        hint: Where to get good ones.
    """
    try:
        tensors = load_tensors(data)
        # The header: its length (8 bytes), then JSON.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        text = header["__metadata__"][_KEY]
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"not a {what}: {error}", hint) from None
    return json_object(text, f"the card of a {what}", hint=hint), tensors


@contextmanager
def made_of_card(what: str) -> Iterator[None]:
    """Errors while a model is made of a card that somebody tampered with: something is missing, or no number.

    Raises:
        InputError: Says so.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise InputError(f"the {what} is damaged: {type(error).__name__} {error}") from None


def write(path: Path, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
    """`pack` into a file, whole or not at all."""
    replace_file(path, pack(tensors, card))


def read(path: Path, *, hint: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`unpack` of a file."""
    if not path.is_file():
        raise MissingDependencyError(f"there are no weights at {path}", hint)
    return unpack(path.read_bytes(), what=f"file of anchor's weights, {path}", hint=hint)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """A card beside its weights, or the like: innermost lists and objects, points of a curve, a line each."""
    text = json.dumps(document, indent=1)
    # Strings have no line breaks in JSON: what is joined here is never part of one.
    text = re.sub(r"\{[^{}]*\}|\[[^\[\]{}]*\]", lambda match: re.sub(r"\s*\n\s*", " ", match[0]), text)
    replace_file(path, text + "\n")


def live_hash(module: nn.Module, settings: str, **arrays: NDArray) -> str:
    """Identity of a frozen model: SHA-256 of weights and buffers as they are now, and of what else counts."""
    weights = {f"weights.{name}": t.detach().cpu().numpy() for name, t in module.state_dict().items()}
    said = np.frombuffer(settings.encode(), dtype=np.uint8)
    return content_hash({**weights, **arrays, "settings": said})
