"""Files a campaign leaves beside its ledger: CIFs and a table of the finds, metrics by step."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from anchor.errors import AnchorError
from anchor.search.campaign import Campaign
from anchor.search.ledger import decode_crystal
from anchor.search.loggers import jsonl_logger

FIND_COLUMNS = (
    "candidate", "formula", "spacegroup", "spacegroup_number", "n_atoms", "energy_above_hull_ev_per_atom",
    "energy_above_dft_hull_ev_per_atom", "energy_above_potential_hull_ev_per_atom",
    "formation_energy_ev_per_atom", "energy_ev", "novelty_reference", "bonds_ok", "relaxation",
)  # fmt: skip


def write_outputs(campaign: Campaign, folder: Path, finds: list[dict[str, Any]]) -> dict[str, Path]:
    """Write the finds as CIF files and as a table, and the metrics of all steps; returns the places."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        metrics = folder / "metrics.jsonl"
        jsonl_logger(campaign.ledger, metrics)
        return {"finds": write_finds(finds, folder), "metrics": metrics}
    except OSError as error:
        raise AnchorError(
            f"the results could not be written to '{folder}': {error}",
            f"the ledger holds everything; write them again with: anchor export {folder}",
        ) from error


def write_finds(finds: list[dict[str, Any]], folder: Path) -> Path:
    """finds.csv and finds/NN-FORMULA.cif, lowest energy above the hull first."""
    cifs = folder / "finds"
    cifs.mkdir(exist_ok=True)
    for old in cifs.glob("*.cif"):
        old.unlink()
    with (folder / "finds.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["cif", *FIND_COLUMNS], extrasaction="ignore")
        writer.writeheader()
        for rank, row in enumerate(finds, start=1):
            name = f"{rank:02d}-{row['formula']}.cif"
            decode_crystal(row["crystal"]).to_structures()[0].to(filename=str(cifs / name))
            writer.writerow({"cif": f"finds/{name}", **row})
    return folder / "finds.csv"
