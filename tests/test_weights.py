"""Files of weights: round trips, cards in the header and beside, refusals, live hashes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from anchor.errors import InputError, MissingDependencyError
from anchor.weights import live_hash, pack, read, unpack, write, write_json

TENSORS = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.ones(2, dtype=torch.float16)}


def test_round_trip_and_the_library_reads_it(tmp_path: Path):
    write(tmp_path / "w.safetensors", {**TENSORS, "tied": TENSORS["b"]}, {"name": "x", "curve": [1, 2]})
    card, tensors = read(tmp_path / "w.safetensors")
    assert card == {"name": "x", "curve": [1, 2]}
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)
        assert tensors[name].dtype == tensor.dtype
    with safe_open(tmp_path / "w.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["anchor"]) == card
        assert torch.equal(file.get_tensor("a"), TENSORS["a"])
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"], "no draft is left"
    assert pack(TENSORS, {"a": 1, "b": 2}) == pack(TENSORS, {"b": 2, "a": 1})


@pytest.mark.parametrize("data", [b"", b"something else", save({"x": torch.ones(2)})])
def test_other_bytes_are_refused(data: bytes, tmp_path: Path):
    with pytest.raises(InputError, match="not a thing"):
        unpack(data, what="thing")
    (tmp_path / "w").write_bytes(data)
    with pytest.raises(InputError, match="not a file of anchor's weights"):
        read(tmp_path / "w")
    with pytest.raises(MissingDependencyError, match="no weights at"):
        read(tmp_path / "none")


def test_json_beside_weights_says_the_same_with_a_point_of_a_curve_per_line(tmp_path: Path):
    document = {
        "command": "a  [b  c] {d  e}",
        "curve": [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}],
        "list": [1, 2, 3],
    }
    write_json(tmp_path / "card.json", document)
    text = (tmp_path / "card.json").read_text()
    assert json.loads(text) == document
    assert '{ "step": 1, "loss": 0.5 }' in text


def test_the_hash_is_of_what_the_weights_are_now():
    layer = torch.nn.BatchNorm1d(2)
    before = live_hash(layer, "settings")
    assert live_hash(layer, "settings") == before
    assert live_hash(layer, "others") != before
    layer.running_mean += 1  # a buffer
    changed = live_hash(layer, "settings")
    assert changed != before
    with torch.no_grad():
        layer.weight[1] += 1e-6
    assert live_hash(layer, "settings") != changed
