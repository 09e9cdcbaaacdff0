"""A campaign's crystals and metrics as files that other programs read."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anchor.errors import AnchorError
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, ENERGY, FORMATION, above
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.loggers import METRICS, jsonl_logger
from anchor.writing import OwnFiles, safe_name

FIND_COLUMNS = (
    "candidate", "formula", "level", "why", "spacegroup", "spacegroup_number", "n_atoms", ABOVE,
    ABOVE_WITH_FINDS, FORMATION, ENERGY, "novelty_reference", "bonds_ok", "relaxation", "suspicious",
    "depth_percentile", "thin", "phases_known", "holes", "known_in", "space_group_known",
)  # fmt: skip


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


def write_finds(found: Finds, folder: Path) -> Path:
    """finds.csv and finds/NN-FORMULA.cif of the finds; others.csv and others/ of what is none.

    By the level of attacks passed, then lowest energy above the hull first; of others `what` says what each
    is: near, far, deep, failed, known. The CIF files of an earlier call are removed, those of others are not.
    """
    groups = found.groups()
    finds = groups.pop("find", [])
    others = [row for rows in groups.values() for row in rows]
    own = OwnFiles(folder)
    _write(own, "others", others)
    return _write(own, "finds", finds)


def _write(own: OwnFiles, title: str, rows: Sequence[dict[str, Any]]) -> Path:
    """A table and a folder of crystals, both of one name."""
    hulls = list(dict.fromkeys(name for row in rows for name in row["energy_above_each_hull_ev_per_atom"]))
    fields = ["cif", "what", *FIND_COLUMNS, *(above(name) for name in hulls)]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=fields, extrasaction="ignore")
    writer.writeheader()
    cifs = {}
    for rank, row in enumerate(rows, start=1):
        name = own.name_for(f"{title}/{rank:02d}-{safe_name(row['formula'])}.cif")
        cifs[name] = decode_crystal(row["crystal"]).to_structures()[0].to(fmt="cif")
        each = {above(hull): e for hull, e in row["energy_above_each_hull_ev_per_atom"].items()}
        writer.writerow({"cif": name, **row, **each})
    own.put(cifs, instead_of=f"{title}/")
    name = own.name_for(f"{title}.csv")
    return own.put({name: table.getvalue()})[name]
