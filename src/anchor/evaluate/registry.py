"""Protocols by name, imported when first asked for."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any

from anchor.errors import InputError, nearest
from anchor.evaluate.protocol import Protocol

PROTOCOLS = {
    "internal": "anchor.evaluate.internal:InternalProtocol",
    "mattergen": "anchor.evaluate.mattergen.protocol:MatterGenProtocol",
    "lemat": "anchor.evaluate.lemat.protocol:LematProtocol",
}


def load_protocol(name: str, **options: Any) -> Protocol:
    """A protocol with its options, keyword arguments of its class; one it does not know is refused.

    Args:
        name: internal, mattergen or lemat.
        options: What the protocol should change; None leaves its default.
    """
    if name not in PROTOCOLS:
        raise InputError(f"'{name}' is not a protocol", nearest(name, PROTOCOLS))
    module, class_name = PROTOCOLS[name].split(":")
    cls = getattr(import_module(module), class_name)
    given = {key: value for key, value in options.items() if value is not None}
    accepted = signature(cls).parameters
    if unknown := sorted(set(given) - set(accepted)):
        raise InputError(
            f"the {name} protocol has no option {', '.join(unknown)}",
            f"it has: {', '.join(accepted)}",
        )
    protocol = cls(**given)
    assert isinstance(protocol, Protocol)
    return protocol
