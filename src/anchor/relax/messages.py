"""What `anchor.relax.parallel` and its workers say to each other: named arrays, never pickles."""

from __future__ import annotations

import io
import json
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.relax.result import Relaxation

Message = dict[str, NDArray]
_CRYSTALS = ("counts", "numbers", "frac", "lattice")
_COLUMNS = ("energy", "status", "steps", "evaluations", "first_converged_step", "max_force")
_HEAD = 8  # bytes of a message's length


def send(stream: IO[bytes], message: Message) -> None:
    """Write one message."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **message)
    body = buffer.getvalue()
    stream.write(len(body).to_bytes(_HEAD, "little") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """Read one message; EOFError where there is none, or only a part of it."""
    head = stream.read(_HEAD)
    size = int.from_bytes(head, "little")
    body = stream.read(size) if len(head) == _HEAD else b""
    if len(head) < _HEAD or len(body) < size:
        raise EOFError
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        return dict(arrays)


def note(value: Any) -> NDArray[np.str_]:
    """Anything that JSON knows, as an array."""
    return np.array(json.dumps(value))


def noted(array: NDArray) -> Any:
    """The value of a `note`."""
    return json.loads(str(array))


def from_crystals(crystals: Crystals) -> Message:
    return {name: getattr(crystals, name) for name in _CRYSTALS}


def to_crystals(message: Message) -> Crystals:
    return Crystals(*(message[name] for name in _CRYSTALS))


def from_relaxation(found: Relaxation) -> Message:
    """Without trajectories."""
    return {
        **from_crystals(found.crystals),
        **{name: getattr(found, name) for name in _COLUMNS},
        "reason": note(found.reason),
        "path": np.concatenate([*found.path_energy, np.zeros(0)]),
    }


def to_relaxation(message: Message) -> Relaxation:
    columns: dict[str, Any] = {name: message[name] for name in _COLUMNS}
    return Relaxation(
        crystals=to_crystals(message),
        reason=noted(message["reason"]),
        path_energy=np.split(message["path"], np.cumsum(message["evaluations"]))[:-1],
        **columns,
    )
