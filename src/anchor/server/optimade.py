"""OPTIMADE: refined finds of all campaigns and the catalogue, for every program that speaks it.

optimade-python-tools' own app with its store in memory, which is filled again once finds have changed. Fields
that OPTIMADE does not know begin with `_anchor_`.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import FastAPI
from optimade.models.utils import anonymize_formula, reduce_formula

from anchor import __version__
from anchor.catalogue.catalogue import Catalogue
from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.exports.chosen import refined_rows
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, EACH, FORMATION
from anchor.search.ledger import Ledger, decode_crystal
from anchor.server.cards import listed_entries
from anchor.server.folder import Folder
from anchor.server.listing import Row
from anchor.server.live import changed

PREFIX = "anchor"
FIELDS: dict[str, tuple[str, str, str | None]] = {
    "energy_above_hull": ("float", "energy above the hull that counts, signed", "eV/atom"),
    "energy_above_hull_with_finds": ("float", "above it with everything else that was found", "eV/atom"),
    "energy_above_oqmd_hull": ("float", "energy above the hull of OQMD, signed", "eV/atom"),
    "energy_above_mp_hull": ("float", "energy above the hull of the Materials Project, signed", "eV/atom"),
    "formation_energy": ("float", "formation energy on the scale of the hull that counts", "eV/atom"),
    "novelty": ("float", "how new it is against the reference, 0 to 1", None),
    "level": ("integer", "highest level of anchor verify that it passed; null: not attacked", None),
    "space_group": ("string", "symbol, spglib with 0.05 Å", None),
    "what": ("string", "find, near, far, deep, failed, known, or catalogue", None),
    "known_in": ("string", "sources that list the formula", None),
    "origin": ("string", "campaign, or catalogue", None),
}
"""Name without the prefix: type, meaning, unit."""


def make_app(base_url: str, *, database: str, logs: Path) -> FastAPI:
    """OPTIMADE's app with nothing in it.

    Args:
        base_url: Where it will be mounted, without a version.
        database: Name of the store: apps of one process share stores of one name.
        logs: Folder for its log files, which would else be written to /var/log.
    """
    os.environ["OPTIMADE_LOG_DIR"] = str(logs)  # read by its import
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it misses a file of settings, which nobody needs
        from optimade.server.config import ServerConfig, SupportedBackend
        from optimade.server.create_app import create_app

        _silence("optimade")
        config = ServerConfig(
            insert_test_data=False,
            base_url=base_url,
            database_backend=SupportedBackend.MONGOMOCK,
            mongo_database=database,
            log_dir=logs,
            implementation={
                "name": "anchor",
                "version": __version__,
                "homepage": None,
            },
            provider={
                "prefix": PREFIX,
                "name": "anchor",
                "description": "Crystals that searches found: proposals of a machine-learned potential",
                "homepage": None,
            },
            provider_fields={
                "structures": [
                    {"name": name, "type": kind, "description": about, **({"unit": unit} if unit else {})}
                    for name, (kind, about, unit) in FIELDS.items()
                ]
            },
        )
        app = create_app(config, logger_tag=database)
    _silence(f"optimade.{database}")
    return app


def _silence(name: str) -> None:
    """Errors only: it would print a line for every request and every start."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.ERROR)
    for handler in logger.handlers:
        handler.setLevel(logging.ERROR)


class Shelf:
    """Keeps OPTIMADE's store as the folder is.

    Args:
        app: OPTIMADE's app.
        folder: Whose finds.
        catalogue: That ships.
    """

    def __init__(self, app: FastAPI, folder: Folder, catalogue: Catalogue | None) -> None:
        self._entries = app.state.entry_collections["structures"]
        self._folder, self._catalogue = folder, catalogue
        self._mark: Any = None
        self._made: dict[str, tuple[Any, list[dict[str, Any]]]] = {}
        self._lock = Lock()

    def refill(self) -> int:
        """Bring the store up to date; returns how many entries it holds. Costs little if nothing changed."""
        with self._lock:
            places = self._folder.places("campaign")
            mark = [(place.key, changed(place.path)) for place in places]
            if mark != self._mark:
                documents = [doc for place in places for doc in self._documents(place.key, place.path)]
                documents += list(self._catalogued())
                self._entries.collection.delete_many({})
                if documents:
                    self._entries.insert(documents)
                self._mark = mark
            return len(self._entries)

    def _documents(self, key: str, path: Path) -> list[dict[str, Any]]:
        """Finds of one campaign; made again only if its ledger or its finds changed."""
        mark = changed(path)
        if key in self._made and self._made[key][0] == mark:
            return self._made[key][1]
        when = datetime.fromtimestamp(max(mark[0], mark[2]), UTC)
        try:
            with closing(Ledger.open(path)) as ledger:
                rows = refined_rows(ledger)
        except AnchorError:  # a damaged ledger is said on its own page; the others are served
            rows = []
        found = [document(key, row, decode_crystal(row["crystal"]), when) for row in rows]
        self._made[key] = (mark, found)
        return found

    def _catalogued(self) -> Iterator[dict[str, Any]]:
        if self._catalogue is None:
            return
        when = datetime.fromtimestamp(0, UTC)  # it ships: it never changes
        if "" not in self._made:
            rows = zip(listed_entries(self._catalogue), self._catalogue.crystals, strict=True)
            self._made[""] = (None, [document("catalogue", row, crystal, when) for row, crystal in rows])
        yield from self._made[""][1]


def document(origin: str, row: Row, crystal: Crystals, when: datetime) -> dict[str, Any]:
    """A row as an entry of OPTIMADE's store.

    Args:
        origin: Key of the campaign, or 'catalogue'.
        row: Of finds, or of the catalogue.
        crystal: One.
        when: It was last changed.
    """
    name = f"{origin}-{row['id']}"
    above = row[EACH] or {}
    own = {
        "energy_above_hull": row[ABOVE],
        "energy_above_hull_with_finds": row.get(ABOVE_WITH_FINDS),
        "energy_above_oqmd_hull": above.get("oqmd"),
        "energy_above_mp_hull": above.get("mp"),
        "formation_energy": row[FORMATION],
        "novelty": row.get("novelty_reference"),
        "level": row.get("level"),
        "space_group": row.get("spacegroup"),
        "what": row["what"],
        "known_in": row.get("known_in"),
        "origin": origin,
    }
    assert own.keys() == FIELDS.keys(), "a field is declared or filled, but not both"
    return {
        **_structure(crystal),
        "id": name,
        "task_id": name,
        "type": "structures",
        "last_modified": when,
        "immutable_id": name,
        **own,  # the app adds the prefix
    }


def _structure(crystal: Crystals) -> dict[str, Any]:
    """OPTIMADE's own fields of one crystal; without pymatgen, whose objects take ten times as long."""
    sites = [SYMBOLS[z] for z in crystal.numbers.tolist()]
    elements = sorted(set(sites))
    formula = "".join(f"{symbol}{sites.count(symbol)}" for symbol in elements)
    return {
        "elements": elements,
        "nelements": len(elements),
        "elements_ratios": [sites.count(symbol) / len(sites) for symbol in elements],
        "chemical_formula_descriptive": formula,
        "chemical_formula_reduced": reduce_formula(formula),
        "chemical_formula_anonymous": anonymize_formula(formula),
        "dimension_types": [1, 1, 1],
        "nperiodic_dimensions": 3,
        "lattice_vectors": crystal.lattice[0].tolist(),
        "cartesian_site_positions": crystal.cart.tolist(),
        "nsites": len(sites),
        "species_at_sites": sites,
        "species": [
            {"name": symbol, "chemical_symbols": [symbol], "concentration": [1.0]} for symbol in elements
        ],
        "structure_features": [],
    }
