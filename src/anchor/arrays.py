"""Named arrays in compressed files whose bytes, and whose content hash, depend on nothing but the arrays."""

from __future__ import annotations

import hashlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.errors import InputError, MissingDependencyError
from anchor.writing import draft

Arrays = Mapping[str, NDArray]
DAMAGED = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile and NumPy say to damaged files (tests/faults/fuzz.py): a place before the file's beginning, a
compression nobody has, a shape of 10^18, a header that is no Python."""


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write a compressed .npz. NumPy dates every member 1980-01-01: equal arrays give equal bytes."""
    ordered: dict[str, Any] = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    with draft(path) as made, made.open("wb") as file:
        np.savez_compressed(file, **ordered)


def load_arrays(path: Path) -> dict[str, NDArray]:
    """Read what `save_arrays` wrote; nothing in it can run code."""
    if not path.is_file():
        raise MissingDependencyError(
            f"the bundled file {path.name} is missing from {path.parent}", "make it with: anchor data build"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except DAMAGED as error:
        raise InputError(f"{path} is damaged: {error}", "of what ships: install anchor again") from None


def content_hash(arrays: Arrays) -> str:
    """SHA-256 over names, types, shapes and bytes (little-endian, C order) of the arrays, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        array = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack_strings(strings: Iterable[str]) -> NDArray[np.uint8]:
    """Strings without line breaks as one array of UTF-8 bytes."""
    return np.frombuffer("\n".join(strings).encode(), dtype=np.uint8)


def unpack_strings(packed: NDArray[np.uint8]) -> list[str]:
    """Inverse of `pack_strings` (an empty array is no string)."""
    return packed.tobytes().decode().split("\n") if len(packed) else []
