"""Good examples of everything that anchor reads, as bytes, for `fuzz.py` to spoil."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

CIF = b"""data_NaCl
_cell_length_a 5.64
_cell_length_b 5.64
_cell_length_c 5.64
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M 'F m -3 m'
loop_
_symmetry_equiv_pos_as_xyz
'x, y, z'
'-x, -y, z'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_occupancy
Na1 Na+ 0 0 0 1.0
Cl1 Cl- 0.5 0.5 0.5(1) 1
"""
POSCAR = b"""Na Cl
1.0
5.64 0 0
0 5.64 0
0 0 5.64
Na Cl
1 1
Selective dynamics
direct
0 0 0 T T F
0.5 0.5 0.5 T F F
"""
EXTXYZ = b"""2
Lattice="5.64 0 0 0 5.64 0 0 0 5.64" Properties=species:S:1:pos:R:3:forces:R:3 energy=-3.2 pbc="T T T"
Na 0 0 0 0.1 0 0
Cl 2.82 2.82 2.82 0 0 -0.1
"""
CSV = b'material_id,energy,cif\nmp-1,-3.2,"' + CIF.replace(b"'", b"''") + b'"\nmp-2,,"data_x"\n'
YAML = b"""grpo:
  group_size: 16
  learning_rate: 3e-4
relax: {max_steps: 3, fmax: 0.05}
action_space:
  elements: [Na, No, 'Cl']
run:
  seed: 3
"""
FORMULAS = [b"LiFePO4", b"Ca3(PO4)2", b"NaCl", b"[Co(NH3)6]Cl3", b"H2O", b"Fe0.5O", "Fe₂O₃".encode()]


PW = b"""     Program PWSCF v.7.4 starts on 30Dec2024 at 16:10:39
     lattice parameter (alat)  = 7.54  a.u.
     number of atoms/cell      = 2
     kinetic-energy cutoff     =      80.0000  Ry
     Exchange-correlation= PBE
     celldm(1)= 7.54  celldm(2)=   0.000000  celldm(3)=   0.000000
     crystal axes: (cart. coord. in units of alat)
  a(1) = ( 1.000000000 0.000000000 0.000000000 )
  a(2) = ( 0.500000000 0.866025404 0.000000000 )
  a(3) = ( 0.500000000 0.288675135 0.816496581 )
   Cartesian axes
     site n.     atom                  positions (alat units)
 1 Na tau( 1) = ( 0.000000000 0.000000000 0.000000000 )
 2 Cl tau( 2) = ( 1.000000000 0.577350269 0.408248290 )
     End of self-consistent calculation

     Number of k-points >= 100: set verbosity='high' to print the bands.
!    total energy              = -7.3498644 Ry
     JOB DONE.
"""
GPAW = b"""  __  _  _
 | _ |_)|_||  |
 |__||  | ||/\\| - 26.7.0

  mode=PW(ecut=350.0),
  xc=XC(name='PBE')

Atoms  # \xc3\x85, Bohr magnetons
|   | symbol | x | y | z | magnetic moments |
|---|---|
| 0 |     Na | 0.000000 | 0.000000 | 0.000000 | ( 0.0000,  0.0000,  0.0000) |
| 1 |     Cl | 2.820000 | 2.820000 | 2.820000 | ( 0.0000,  0.0000,  0.0000) |


Unit cell  # \xc3\x85
| periodic | x | y | z | lengths | angles |
|---|---|
|      yes | 0.000000 | 2.820000 | 2.820000 | 3.99 | 60.0 |
|      yes | 2.820000 | 0.000000 | 2.820000 | 3.99 | 60.0 |
|      yes | 2.820000 | 2.820000 | 0.000000 | 3.99 | 60.0 |


Converged in 8 steps
  Extrapolated:     -7.250000
"""


def dft_outputs() -> list[bytes]:
    """Of three codes; VASP's is a test file of ASE, where ASE brings it along."""
    import ase

    vasprun = Path(ase.__file__).parent / "test" / "testdata" / "vasp" / "vasprun_pstress.xml"
    return [PW, GPAW, *([vasprun.read_bytes()] if vasprun.is_file() else [])]


@cache
def structure_json() -> bytes:
    from pymatgen.core import Lattice, Structure

    made = Structure(Lattice.cubic(5.64), ["Na", "Cl"], [[0, 0, 0], [0.5] * 3])
    return json.dumps([made.as_dict(), {"structure": made.as_dict(), "material_id": "x"}]).encode()


@cache
def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/nacl.cif", CIF)
        made.writestr("../../escape.cif", CIF)
        made.writestr("/etc/POSCAR", POSCAR)
    return content.getvalue()


@cache
def arrays() -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, numbers=np.arange(20), lattice=np.eye(3), text=np.array(["a", "b"]))
    return content.getvalue()


@cache
def tensors() -> bytes:
    import torch

    from anchor.weights import pack

    return pack({"a": torch.eye(3), "b": torch.arange(5)}, {"kind": "policy", "seed": 3})


@cache
def policy_card() -> tuple[bytes, dict[str, Any]]:
    """The card of a small policy as JSON, and its weights."""
    from anchor.config import Policy
    from anchor.policy.network import CompositionPolicy
    from anchor.policy.weights import save
    from anchor.weights import unpack

    small = CompositionPolicy(Policy(state_dim=2, hidden_dim=4, element_embedding=2))
    card, weights = unpack(save(small), what="policy")
    order = ["format", "sizes", "n_objectives", "descriptors", "vocabulary"]  # what is short comes first
    return json.dumps({name: card[name] for name in order}).encode(), weights


@cache
def ledger() -> bytes:
    from anchor.search.ledger import Ledger

    with tempfile.TemporaryDirectory() as scratch:
        made = Ledger.create(scratch, {"grpo": {"group_size": 2}}, {"code": "x"}, "2026-01-01T00:00:00+00:00")
        made.close()
        path = Path(scratch) / "ledger.db"
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA journal_mode=DELETE")
        database.close()
        return path.read_bytes()


FILTERS = [
    b"e_hull < 0.03 and nelements = 3 and elements has Na",
    b"0 <= natoms <= 20 or not (elements within (Na, 'K', O) and valid)",
    "spacegroup contains 'm' and known is not missing and energy ≥ -1e3".encode(),
    b"formula in (NaCl, LiFePO4) or status != 'not scored' or id = 7 and step is missing",
]
