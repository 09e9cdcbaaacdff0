"""YAML as people mean it, its version 1.2: 'No' is an element, '1e-4' a number, '12:30' a text."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml import YAMLError

__all__ = ["YAMLError", "read_yaml", "write_yaml"]


class _Loader(yaml.SafeLoader):
    pass


_Loader.yaml_implicit_resolvers = {}  # without those of version 1.1


FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
for _tag, _pattern, _first in (
    ("null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"[-+]?\d+$"), list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


class _Dumper(yaml.SafeDumper):
    """Quotes what a reader of either version would not take for the text it is."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))


def read_yaml(text: str) -> Any:
    """What a YAML text holds."""
    return yaml.load(text, _Loader)


def write_yaml(value: Any) -> str:
    """A value as one line of YAML."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
