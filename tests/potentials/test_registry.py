"""Names, what is missing, and errors that say what to do."""

from __future__ import annotations

import pytest
import torch

from anchor.errors import InputError, MissingDependencyError
from anchor.potentials import availability, load_potential
from anchor.potentials.registry import DEFAULT_EVALUATION, DEFAULT_TRAINING, REGISTRY, fetch_weights, find


def test_the_papers_potentials_are_the_defaults():
    assert (DEFAULT_TRAINING, DEFAULT_EVALUATION) == ("mattersim-1m", "mattersim-5m")
    assert {DEFAULT_TRAINING, DEFAULT_EVALUATION} <= set(REGISTRY)


def test_a_misspelt_name_gets_the_nearest():
    with pytest.raises(InputError, match="unknown potential 'matersim-1m'") as error:
        load_potential("matersim-1m")
    assert error.value.hint == "did you mean 'mattersim-1m'?"


def test_a_missing_package_is_named_with_the_extra_that_brings_it():
    state = availability("mace")
    if state.ok:
        pytest.skip("mace is installed here")
    assert "mace" in state.reason
    assert "anchor-crystals[mace]" in state.how_to_get
    assert "anchor potentials fetch mace --from FILE" in state.how_to_get


def test_missing_weights_are_named_with_the_command_that_brings_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    monkeypatch.setenv("ANCHOR_OFFLINE", "1")
    assert availability("mattersim-1m").reason == "the weights are not here"
    with pytest.raises(MissingDependencyError, match=r"mattersim-v1.0.0-1M.pth are not here") as error:
        load_potential("mattersim-1m")
    assert "anchor potentials fetch mattersim-1m" in error.value.hint


def test_weights_that_nobody_vouched_for_are_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    weights = find("mace").weights
    (tmp_path / "potentials").mkdir()
    (tmp_path / "potentials" / weights.filename).write_bytes(b"who knows")
    with pytest.raises(MissingDependencyError, match="no hash is pinned"):
        load_potential("mace")


def test_altered_weights_are_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    (tmp_path / "potentials").mkdir()
    (tmp_path / "potentials" / "mattersim-v1.0.0-1M.pth").write_bytes(b"not the weights")
    with pytest.raises(Exception, match="not the pinned 28b0b0b0"):
        load_potential("mattersim-1m")


def test_an_ensemble_is_available_when_its_members_are(load):
    load("mattersim-1m")
    assert availability("mattersim-1m+chgnet").ok
    assert availability("mattersim-1m+nequip").ok is availability("nequip").ok


def test_precisions(load):
    assert load("mattersim-1m").dtype == torch.float32
    assert load("mattersim-1m", "float64").dtype == torch.float64
    with pytest.raises(InputError, match="dtype 'float8'"):
        load_potential("mattersim-1m", dtype="float8")


def test_fetching_what_a_package_brings_only_checks_it():
    assert fetch_weights("chgnet").name.startswith("chgnet_0.3.0")


def test_ones_own_by_its_place(tmp_path, monkeypatch):
    """A module in the current folder is found; its name is its place, so that workers load it again."""
    (tmp_path / "my_morse.py").write_text(
        "from relax_surfaces import Morse\nmake = lambda *, device, dtype: Morse()\nwrong = dict\n"
    )
    monkeypatch.chdir(tmp_path)
    assert load_potential("my_morse:make").name == "my_morse:make"
    with pytest.raises(InputError, match="made a dict"):
        load_potential("my_morse:wrong")
    with pytest.raises(InputError, match="cannot be imported"):
        load_potential("my_morse:nothing")
