"""MatterGen's reference files, and pickles that want more than plain values."""

from __future__ import annotations

import gzip
import os
import pickle
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from pymatgen.core import Lattice, Structure
from pymatgen.entries.computed_entries import ComputedStructureEntry, ConstantEnergyAdjustment

from anchor.errors import InputError, MissingDependencyError
from anchor.formats import load, plain_pickle


def entry(element: str, energy: float) -> ComputedStructureEntry:
    structure = Structure(
        Lattice.from_parameters(4, 4.1, 4.3, 88, 90, 93), ["Li", element], [[0, 0, 0], [0.5, 0.4, 0.6]]
    )
    return ComputedStructureEntry(structure, energy, energy_adjustments=[ConstantEnergyAdjustment(-0.25)])


def reference_file(path: Path, values: dict[str, Any]) -> Path:
    """As MatterGen's serializer lays it out: one file, ASCII keys, pickles of the highest protocol."""
    with lmdb.open(str(path), map_size=2**24, subdir=False) as env, env.begin(write=True) as transaction:
        for key, value in values.items():
            raw = value if isinstance(value, bytes) else pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
            transaction.put(key.encode("ascii"), raw)
    return path


@pytest.fixture
def contents() -> dict[str, Any]:
    return {
        "name": "MP2020correction",
        "chemical_systems": ["Li-P", "Li-S"],
        "Li-P.reduced_formulas": ["LiP"],
        "Li-P.LiP.length": 2,
        "Li-P.LiP.0": entry("P", -10.0).as_dict(),
        "Li-P.LiP.1": entry("P", float("nan")).as_dict(),
        "Li-S.reduced_formulas": ["LiS"],
        "Li-S.LiS.length": 1,
        "Li-S.LiS.0": {**entry("S", -8.0).as_dict(), "entry_id": "agm-3", "data": {"hull": np.float64(0.5)}},
    }


@pytest.mark.parametrize("packing", ["file", "gz", "folder"])
def test_reference_set(packing: str, contents: dict[str, Any], tmp_path: Path) -> None:
    if packing == "folder":
        (tmp_path / "reference").mkdir()
        path = reference_file(tmp_path / "reference" / "data.mdb", contents).parent
    else:
        path = reference_file(tmp_path / "reference_MP2020correction", contents)
        if packing == "gz":
            packed = path.with_suffix(".gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
            path = packed
    loaded = load(path)
    assert loaded.ids == ["Li-P.LiP.0", "Li-P.LiP.1", "agm-3"]
    assert loaded.n_read == 3
    np.testing.assert_allclose(loaded.properties["energy"], [-10.25, np.nan, -8.25])
    np.testing.assert_allclose(loaded.properties["uncorrected_energy"], [-10.0, np.nan, -8.0])
    np.testing.assert_allclose(loaded.properties["hull"], [np.nan, np.nan, 0.5])
    expected = entry("S", 0).structure
    np.testing.assert_allclose(loaded.crystals[2].frac, expected.frac_coords)
    np.testing.assert_allclose(loaded.crystals[2].lattice[0], expected.lattice.matrix)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["ANCHOR_TEST_TRAP"],)


def test_a_malicious_entry_is_refused_and_does_nothing(
    contents: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "executed"
    monkeypatch.setenv("ANCHOR_TEST_TRAP", str(trap))
    contents["Li-P.LiP.1"] = {**entry("P", 1.0).as_dict(), "data": {"x": Evil()}}
    path = reference_file(tmp_path / "a.lmdb", contents)
    with pytest.raises(InputError, match=rf"Li-P\.LiP\.1: the pickle asks for {os.mkdir.__module__}\.mkdir"):
        load(path)
    loaded = load(path, on_error="skip")
    assert len(loaded) == 2
    assert len(loaded.skipped) == 1
    assert not trap.exists()
    pickle.loads(pickle.dumps(Evil()))  # noqa: S301  the trap is real: an ordinary unpickler springs it
    assert trap.exists()


def test_missing_and_foreign_entries_are_named(contents: dict[str, Any], tmp_path: Path) -> None:
    del contents["Li-P.LiP.1"]
    contents["Li-S.LiS.0"] = b"not a pickle"
    contents["something else"] = 1
    loaded = load(reference_file(tmp_path / "a.lmdb", contents), on_error="skip")
    assert len(loaded) == 1
    reasons = {s.source.rpartition(":")[2]: s.reason for s in loaded.skipped}
    assert reasons["Li-P.LiP"] == "entry 2 of 2 is missing from the file"
    assert "Unpickling" in reasons["Li-S.LiS.0"]
    assert "no key" in reasons["something else"]


def test_a_file_cut_short_is_refused(contents: dict[str, Any], tmp_path: Path) -> None:
    path = reference_file(tmp_path / "a.lmdb", contents)
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(InputError, match="cut short"):
        load(path)


def test_without_lmdb_the_way_out_is_named(
    contents: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = reference_file(tmp_path / "a.lmdb", contents)
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "anchor-crystals\[lmdb\]"'):
        load(path, on_error="skip")


# The unpickler alone

PLAIN_VALUES = [
    {"a": [1, 2.5, None, True, "x", b"y", (1, {2}, frozenset({3}))]},
    defaultdict(float, {"Li": 1.0}),
    OrderedDict(a=1),
    np.float64(1.5), np.float32(0.25), np.int32(-3), np.bool_(True), np.str_("text"),
    np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.array([["ab", "c"]]), np.zeros((0, 3)),
    np.array([1.0, 2.0], dtype=">f8"), np.array(7),
]  # fmt: skip


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", PLAIN_VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(value: Any, protocol: int) -> None:
    got = plain_pickle.loads(pickle.dumps({"value": value}, protocol=protocol))["value"]
    expected = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(expected, np.ndarray) or np.ndim(value) == 0:
        got = got[0] if isinstance(got, list) and not isinstance(expected, list) else got
    assert got == expected


class Reduces:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return self.parts


@pytest.mark.parametrize(
    "value",
    [
        Reduces(eval, ("1+1",)),
        Reduces(getattr, ("", "upper")),
        Reduces(np.load, ("x.npy",)),
        Reduces(np.frombuffer, (b"12345678",)),
        Path("x"),
        np.dtype(object),
        np.array([{}], dtype=object),
        Structure(Lattice.cubic(3), ["H"], [[0, 0, 0]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_else_is_refused(value: Any) -> None:
    with pytest.raises(plain_pickle.ForbiddenPickleError):
        plain_pickle.loads(pickle.dumps(value))


def test_dotted_names_and_changed_functions_are_refused() -> None:
    for attack in (
        b"\x80\x04\x8c\x08builtins\x8c\x0dfloat.fromhex\x93.",  # an attribute of an allowed type
        b"c_codecs\nencode\n}(S'x'\nI1\nub.",  # BUILD on an allowed function
    ):
        with pytest.raises(plain_pickle.ForbiddenPickleError):
            plain_pickle.loads(attack)


def test_a_pickle_that_asks_for_all_memory_is_one_bad_entry(contents: dict[str, Any], tmp_path: Path) -> None:
    contents["Li-P.LiP.1"] = b"\x80\x05\x8e" + (2**62).to_bytes(8, "little") + b"short."
    loaded = load(reference_file(tmp_path / "a.lmdb", contents), on_error="skip")
    assert len(loaded) == 2
    assert loaded.skipped[0].source.endswith("Li-P.LiP.1")
