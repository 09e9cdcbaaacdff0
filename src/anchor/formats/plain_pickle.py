"""Unpickling that can make plain values only: numbers, text, containers, and NumPy's numbers and arrays.

A pickle is a program: it names functions and has them called. Here every name outside a short list is refused
before anything is called, and the names on the list stand for functions of this file, so that not even
NumPy's own constructors see unchecked arguments. Arrays come back as nested lists
(those without dimensions as lists of one).
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from anchor.errors import InputError

LARGEST_PICKLE = 64 * 2**20  # bytes of one entry; a cell of 10,000 atoms needs 4 MB


class ForbiddenPickleError(InputError):
    """A pickle that names something other than plain values."""


class _DType:
    """A NumPy type code of plain numbers or text, byte order included."""

    def __init__(self, code: str, *_: Any) -> None:
        if not (isinstance(code, str) and re.fullmatch(r"[<>|=]?[biufSU]\d+", code)):
            raise ForbiddenPickleError(
                f"the pickle holds an array of type {code!r}; only plain numbers are read"
            )
        self.code = code.lstrip("<>|=")
        self.order = code[0] if code[0] in "<>" else "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.order = state[1]

    def values(self, raw: Any) -> np.ndarray:
        return np.frombuffer(bytes(raw), dtype=np.dtype(self.order + self.code))


class _Array(list):
    """An array as nested lists, filled when the pickle sets its state."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, raw = state
        self[:] = _shaped(raw, dtype, shape, "F" if fortran else "C")


def _shaped(raw: Any, dtype: _DType, shape: tuple[int, ...], order: str) -> Any:
    values = dtype.values(raw)
    if math.prod(shape) != len(values):
        raise ForbiddenPickleError(f"an array of shape {shape} with {len(values)} values")
    return values.reshape(shape or (1,), order="F" if order == "F" else "C").tolist()


def _scalar(dtype: _DType, raw: bytes) -> Any:
    return dtype.values(raw)[0].item()


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _bytes(*arguments: Any) -> bytes:
    if arguments:
        raise ForbiddenPickleError("the pickle makes bytes in an unusual way")
    return b""


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ForbiddenPickleError(f"the pickle encodes text as {encoding!r}")
    return text.encode("latin-1")


def _dictionary(*arguments: Any) -> dict[Any, Any]:
    """A defaultdict or OrderedDict as an ordinary one; the first's factory is dropped."""
    return {} if not arguments or isinstance(arguments[-1], type) else dict(arguments[-1])


class _StandIn:
    """A function under another name, which a pickle may call but not change."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise ForbiddenPickleError("the pickle tries to change a function")


PLAIN = (float, int, str, bool, list, dict, tuple, set, frozenset)
STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "defaultdict"): _dictionary,
    ("collections", "OrderedDict"): _dictionary,
    ("_codecs", "encode"): _encode,  # how protocol 2 writes bytes, and below it empty ones
    ("__builtin__", "bytes"): _bytes,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _reconstruct,  # named as an argument of NumPy's _reconstruct
    **{
        (f"numpy.{core}.{module}", name): function
        for core in ("core", "_core")  # before and since NumPy 2
        for module, name, function in (
            ("multiarray", "scalar", _scalar),
            ("multiarray", "_reconstruct", _reconstruct),
            ("numeric", "_frombuffer", _shaped),
        )
    },
}
ALLOWED: dict[tuple[str, str], Any] = {
    **{(module, kind.__name__): kind for module in ("builtins", "__builtin__") for kind in PLAIN},
    **{name: _StandIn(function) for name, function in STAND_INS.items()},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise ForbiddenPickleError(
                f"the pickle asks for {module}.{name}, which is not a plain value; nothing was run"
            ) from None


def loads(data: bytes) -> Any:
    """The plain value in a pickle.

    Raises:
        ForbiddenPickleError: It names anything else, which is not imported and not called.
    """
    if len(data) > LARGEST_PICKLE:
        raise InputError(f"a pickle of {len(data) / 2**20:.0f} MiB is no crystal")
    return _PlainUnpickler(io.BytesIO(data)).load()
