"""The names that `import anchor` offers."""

import subprocess
import sys

import anchor


def test_every_public_name_exists() -> None:
    for name in anchor.__all__:
        assert getattr(anchor, name) is not None


def test_import_is_light() -> None:
    """`import anchor` and `anchor --help` load neither torch nor pymatgen."""
    code = "import anchor.cli.main, sys; print([m for m in ('torch', 'pymatgen', 'ase') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
