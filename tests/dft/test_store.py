"""Energies are remembered; failures are tried again."""

import json
from pathlib import Path

import pytest

from anchor.dft.jobs import Job
from anchor.dft.rules import Settings
from anchor.dft.store import SHIPPED, Energy, Store, ship
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    crystals = load_reference().crystals
    return [Job.of(crystals[[i]], Settings(400.0, 100.0)) for i in range(2)]


def test_put_and_get(tmp_path: Path, jobs: list[Job]) -> None:
    store = Store(tmp_path, shipped=None)
    assert store.get(jobs[0]) is None
    store.put(jobs[0], Energy("done", "", -3.5, 2, {"cpu_seconds": 4.0}))
    found = Store(tmp_path, shipped=None).get(jobs[0])
    assert found == Energy("done", "", -3.5, 2, {"cpu_seconds": 4.0}, "cache")
    assert found.per_atom == -1.75
    assert store.get(jobs[1]) is None


def test_what_failed_is_tried_again(tmp_path: Path, jobs: list[Job]) -> None:
    store = Store(tmp_path, shipped=None)
    store.put(jobs[0], Energy("out of time", "because", None, 2))
    assert store.get(jobs[0]) is None
    assert json.loads(store.path(jobs[0]).read_text())["result"]["status"] == "out of time"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"result": 3}', b'{"result": {"x": 1}}', b"\xff"])
def test_what_is_damaged_is_calculated_again(tmp_path: Path, jobs: list[Job], content: bytes) -> None:
    store = Store(tmp_path, shipped=None)
    store.put(jobs[0], Energy("done", "", -3.5, 2))
    store.path(jobs[0]).write_bytes(content)
    assert store.get(jobs[0]) is None


def test_shipped_energies_are_found_by_their_hash(tmp_path: Path, jobs: list[Job]) -> None:
    store = Store(tmp_path / "own", shipped=None)
    store.put(jobs[0], Energy("done", "", -3.5, 2))
    store.put(jobs[1], Energy("not converged", "", None, 2))
    assert ship(store, tmp_path / "shipped.json") == 1
    assert ship(Store(tmp_path / "empty", shipped=None), tmp_path / "shipped.json") == 1  # none is lost
    other = Store(tmp_path / "none", shipped=tmp_path / "shipped.json")
    found = other.get(jobs[0])
    assert found is not None
    assert (found.source, found.energy) == ("shipped", -3.5)
    assert other.get(jobs[1]) is None


def test_the_file_that_ships_is_small_and_says_what_it_holds() -> None:
    assert SHIPPED.stat().st_size < 200_000
    document = json.loads(SHIPPED.read_text())
    assert document["command"]
    assert all(row["energy_ev"] < 0 and "eV" in row["what"] for row in document["energies"].values())
