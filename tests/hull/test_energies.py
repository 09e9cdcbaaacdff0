"""The resumable computation of reference energies, with a real potential on a few crystals."""

from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, MissingDependencyError
from anchor.hull import energies as store
from anchor.potentials import Potential, load_potential


@pytest.fixture(scope="module")
def crystals() -> Crystals:
    atoms = [
        bulk("NaCl", "rocksalt", a=5.64, cubic=True),
        bulk("Cu", "fcc", a=3.6),
        bulk("MgO", "rocksalt", a=4.2),
        bulk("Po", "sc", a=3.3),  # covered by no potential here
        bulk("Si", "diamond", a=5.4),
        bulk("Fe", "bcc", a=2.8),
        bulk("CsCl", "cesiumchloride", a=4.1),
    ]
    atoms[4].rattle(0.05, seed=1)
    return Crystals.from_atoms(atoms)


@pytest.fixture(scope="module")
def potential() -> Potential:
    return load_potential("chgnet")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a package without bundled energies."""
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "BUNDLED", tmp_path / "package")
    return tmp_path / "cache"


def run(
    crystals: Crystals,
    potential: Potential,
    checkpoint: Path,
    *,
    stop_after: int | None = None,
    **settings: int,
) -> dict[str, np.ndarray]:
    chunks = store.single_point_chunks(crystals, chunk_atoms=4)
    building = store.build_energies(
        crystals, potential, chunks, store.single_point_columns, checkpoint=checkpoint, settings=settings
    )
    for done, columns in building:  # noqa: B007
        if done == stop_after:
            building.close()
            break
    return columns


def test_chunks_hold_every_crystal_once_small_ones_first(crystals: Crystals) -> None:
    chunks = store.single_point_chunks(crystals, chunk_atoms=4)
    assert sorted(np.concatenate(chunks).tolist()) == list(range(len(crystals)))
    sizes = [int(crystals.counts[c].sum()) for c in chunks]
    assert all(size <= 4 or len(c) == 1 for size, c in zip(sizes, chunks, strict=True))
    order = crystals.counts[np.concatenate(chunks)]
    assert (np.diff(order) >= 0).all()


def test_relaxation_chunks_start_on_the_hull_and_stop_at_the_limit(crystals: Crystals) -> None:
    above = np.array([0.05, 0.0, 0.2, 0.01, 0.0, 0.1, np.nan])
    chunks = store.relaxation_chunks(crystals, above, chunk_atoms=100)
    assert [c.tolist() for c in chunks] == [[1, 4], [3], [5, 0]]


def test_single_points_are_those_of_the_potential(
    crystals: Crystals, potential: Potential, tmp_path: Path
) -> None:
    columns = run(crystals, potential, tmp_path / "a.npz")
    for i in range(len(crystals)):
        if i == 3:
            assert np.isnan(columns["single_point"][i])
            continue
        alone = potential.evaluate(crystals[i])
        assert columns["single_point"][i] == pytest.approx(alone.energy[0] / crystals.counts[i], abs=2e-5)
        norm = np.linalg.norm(alone.forces, axis=1).max()
        assert columns["max_force"][i] == pytest.approx(norm, abs=2e-3)


@pytest.mark.parametrize("stop_after", [0, 1, 2])
def test_an_interrupted_run_ends_with_the_same_bytes(
    crystals: Crystals, potential: Potential, tmp_path: Path, stop_after: int
) -> None:
    run(crystals, potential, tmp_path / "whole.npz")
    run(crystals, potential, tmp_path / "parts.npz", stop_after=stop_after)
    assert store.read_columns(tmp_path / "parts.npz")[1]["chunks"] == stop_after
    run(crystals, potential, tmp_path / "parts.npz")
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "parts.npz").read_bytes()


def test_a_checkpoint_of_another_run_is_refused(
    crystals: Crystals, potential: Potential, tmp_path: Path
) -> None:
    run(crystals, potential, tmp_path / "a.npz", stop_after=1, threads=1)
    with pytest.raises(InputError, match="settings differ"):
        run(crystals, potential, tmp_path / "a.npz", threads=2)
    with pytest.raises(InputError, match="crystals_hash differ"):
        run(crystals[:6], potential, tmp_path / "a.npz", threads=1)


def test_two_runs_do_not_work_on_one_file(crystals: Crystals, potential: Potential, tmp_path: Path) -> None:
    chunks = store.single_point_chunks(crystals, chunk_atoms=4)
    first = store.build_energies(
        crystals, potential, chunks, store.single_point_columns, checkpoint=tmp_path / "a.npz", settings={}
    )
    next(first)
    with pytest.raises(AnchorError, match=r"another process is computing a\.npz"):
        run(crystals, potential, tmp_path / "a.npz")
    first.close()
    run(crystals, potential, tmp_path / "a.npz")


def test_time_limit_stops_after_a_chunk(crystals: Crystals, potential: Potential, tmp_path: Path) -> None:
    chunks = store.single_point_chunks(crystals, chunk_atoms=4)
    steps = list(
        store.build_energies(
            crystals,
            potential,
            chunks,
            store.single_point_columns,
            checkpoint=tmp_path / "a.npz",
            settings={},
            time_limit_s=0.0,
        )
    )
    assert [done for done, _ in steps] == [0]


def save(folder: Path, name: str, crystals: Crystals, pass_name: str, **columns: np.ndarray) -> None:
    identity = {
        "potential": name,
        "checkpoint_hash": "w" * 64,
        "crystals_hash": store.crystals_hash(crystals),
    }
    store.write_columns(store.energies_path(name, pass_name, folder / "energies"), columns, identity)


def test_load_energies_joins_both_passes(crystals: Crystals, cache: Path) -> None:
    n = len(crystals)
    single = np.linspace(-3, -1, n).astype(np.float32)
    save(cache, "p", crystals, "single-points", single_point=single, max_force=np.zeros(n, np.float32))
    found = store.load_energies("p", crystals, checkpoint_hash="w" * 64)
    np.testing.assert_allclose(found.lowest, single)
    status = np.array([0, 1, 2, 3, 4, 1, 1], dtype=np.uint8)
    relaxed = single - np.float32(0.25)
    relaxed[5] = single[5] + 1  # ended higher than it began
    relaxed[0] = np.nan
    save(cache, "p", crystals, "relaxed", relaxed=relaxed, status=status, volume_ratio=np.ones(n, np.float32))
    found = store.load_energies("p", crystals)
    np.testing.assert_allclose(found.lowest - single, [0, -0.25, -0.25, 0, 0, 0, -0.25], atol=1e-6)


def test_energies_of_other_weights_or_crystals_are_refused(crystals: Crystals, cache: Path) -> None:
    with pytest.raises(MissingDependencyError, match="no energies under p"):
        store.load_energies("p", crystals)
    n = len(crystals)
    save(cache, "p", crystals, "single-points", single_point=np.zeros(n), max_force=np.zeros(n))
    with pytest.raises(AnchorError, match="weights wwwwwwwwwwww"):
        store.load_energies("p", crystals, checkpoint_hash="v" * 64)
    with pytest.raises(AnchorError, match="other crystals"):
        store.load_energies("p", crystals[::-1])
