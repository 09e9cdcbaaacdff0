"""A campaign's crystals and metrics as files that other programs read."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.formats import write
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, ENERGY, FIELD_NAMES, FORMATION, above
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.loggers import METRICS, jsonl_logger
from anchor.search.tables import candidates
from anchor.writing import OwnFiles, safe_name

FIND_COLUMNS = (
    "candidate", "formula", "level", "why", "spacegroup", "spacegroup_number", "n_atoms", ABOVE,
    ABOVE_WITH_FINDS, FORMATION, ENERGY, "novelty_reference", "bonds_ok", "relaxation", "suspicious",
    "depth_percentile", "thin", "phases_known", "holes", "known_in", "space_group_known",
)  # fmt: skip


def export(
    ledger: Ledger, path: Path, *, which: str = "finds", most: float | None = None, overwrite: bool = False
) -> int:
    """Write crystals with their energies; the format follows from the path. Returns how many.

    Args:
        ledger: Of the campaign.
        path: .extxyz, .db (ASE), .json, .parquet, .csv (CDVAE's columns), .zip or a folder of CIFs.
        which: "finds" (relaxed with the cell free) or "valid" (every valid candidate of the ledger).
        most: Leave out what is more than this above the hull, eV/atom.
        overwrite: Replace a file that exists.
    """
    if which == "finds":
        found = Finds.read(ledger)
        rows = [{**row, "relaxed": row["crystal"]} for row in (*found.finds, *found.suspicious)]
    elif which == "valid":
        rows = list(ledger.rows(where=candidates.c.valid.is_(True)))
    else:
        raise InputError(f"'{which}' is not a set of crystals", "choose finds or valid")
    if most is not None and np.isnan(most):
        raise InputError("--most nan leaves nothing out and nothing in", "give a number, eV/atom")
    if most is not None:
        rows = [row for row in rows if row[ABOVE] is not None and row[ABOVE] <= most]
    if not rows:
        raise InputError(f"the campaign has no {which} to export", "run it longer, or export --which valid")
    crystals = Crystals.concatenate(decode_crystal(row["relaxed"]) for row in rows)
    ids = [f"anchor-{row.get('candidate', row.get('id'))}" for row in rows]
    names = (ENERGY, ABOVE, FORMATION, "novelty", "reward", *(["level"] if which == "finds" else []))
    properties = {
        FIELD_NAMES.get(name, name): np.array(
            [np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64
        )
        for name in names
    }
    write(path, crystals, ids, properties, overwrite=overwrite)
    return len(rows)


def write_outputs(ledger: Ledger, folder: Path, finds: Finds) -> dict[str, Path]:
    """Write the finds as CIF files and as a table, and the metrics of all steps; returns the places."""
    try:
        metrics = OwnFiles(folder).growing(METRICS)
        jsonl_logger(ledger, metrics)
        return {"finds": write_finds(finds, folder), "metrics": metrics}
    except OSError as error:
        raise AnchorError(
            f"the results could not be written to '{folder}': {error}",
            f"the ledger holds everything; write them again with: anchor export {folder}",
        ) from error


def write_finds(finds: Finds, folder: Path) -> Path:
    """finds.csv and finds/NN-FORMULA.cif: finds, then what is suspicious, then rediscoveries.

    Each by the level of attacks passed, then lowest energy above the hull first; "what" names the group. The
    CIF files of an earlier call are removed, those of others are not.
    """
    own = OwnFiles(folder)
    rows = [{"what": what, **row} for what, group in finds.groups().items() for row in group]
    hulls = list(dict.fromkeys(name for row in rows for name in row["energy_above_each_hull_ev_per_atom"]))
    fields = ["cif", "what", *FIND_COLUMNS, *(above(name) for name in hulls)]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=fields, extrasaction="ignore")
    writer.writeheader()
    cifs = {}
    for rank, row in enumerate(rows, start=1):
        name = own.name_for(f"finds/{rank:02d}-{safe_name(row['formula'])}.cif")
        cifs[name] = decode_crystal(row["crystal"]).to_structures()[0].to(fmt="cif")
        each = {above(hull): e for hull, e in row["energy_above_each_hull_ev_per_atom"].items()}
        writer.writerow({"cif": name, **row, **each})
    own.put(cifs, instead_of="finds/")
    name = own.name_for("finds.csv")
    return own.put({name: table.getvalue()})[name]
