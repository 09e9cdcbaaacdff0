"""Damaged files and devices that are not there are named."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from anchor.arrays import load_arrays, save_arrays
from anchor.devices import usable_device
from anchor.errors import AnchorError, InputError
from anchor.reading import plain_file, read_json, whole_number


@pytest.mark.parametrize("content", [b"{", b"", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"card\.json is damaged") as error:
        read_json(path, hint="make it again")
    assert error.value.hint == "make it again"


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("0", 0), ("²", None), ("1²", None), ("9" * 5000, None), ("-1", None), ("", None)],
)
def test_digits_that_python_cannot_count_are_no_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in {"pipe": "a pipe", ".": "a folder", "nothing": "no file"}.items():
        with pytest.raises(InputError, match=reason):
            plain_file(tmp_path / path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_damaged_arrays_are_named(tmp_path: Path, share: float) -> None:
    path = tmp_path / "arrays.npz"
    save_arrays(path, {"a": np.arange(1000)})
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises(AnchorError, match=r"arrays\.npz is damaged"):
        load_arrays(path)


def test_devices_are_there_or_named() -> None:
    assert usable_device("cpu") == torch.device("cpu")
    for name in ("nonsense", "meta", "cuda:99"):
        with pytest.raises(InputError, match=name):
            usable_device(name)
