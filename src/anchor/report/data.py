"""All that is shown of a campaign, as plain values: the report, the page and notebooks draw from here.

data = campaign_data(ledger)          # everything
overview(Run.read(ledger), …)         # without the crystals: cheap, for a campaign that is running
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from ase.data import covalent_radii
from ase.data.colors import jmol_colors
from pymatgen.core import Element

from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.config import Config
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.tally import LABELS
from anchor.report.entries import LEVELS, campaign_entries
from anchor.report.headline import Headline, headline
from anchor.report.summary import SCREENED, SOURCES, Run, new_tally
from anchor.report.systems import add_hulls
from anchor.search.finds import STANDINGS
from anchor.search.ledger import Ledger

RATES = ("valid", "msun", "sun", "metastable", "stable")
SAME = {"metastable": "msun", "stable": "sun"}
"""Left out where it is the same curve: a screened search proposes nothing that is known."""
TERMS = ("reward", "stability", "novelty", "d_struct", "d_comp", "count_bonus")
KNOWN = ("known", "known_anywhere", "history")
CONTROL = ("entropy_fraction", "beta")
NAMES = {
    **LABELS,
    "msun": "new and near the hull (MSUN)", "sun": "new and on the hull (SUN)",
    "metastable": "near the hull", "stable": "on the hull",
    "history": "formula found before in this run", "d_struct": "structural diversity",
    "d_comp": "compositional diversity", "count_bonus": "count bonus", "reward": "reward",
    "stability": "stability", "novelty": "novelty", "entropy_fraction": "entropy H / H_max", "beta": "β_H",
}  # fmt: skip
"""Of curves, for people."""
MOST_POINTS = 300
"""Points of a curve that counts up."""
BINS = np.round(np.arange(-0.4, 1.0001, 0.025), 3)
"""Edges of the histogram of energies above the hull, eV/atom; what lies outside is in the first and last."""
SYMBOL = re.compile(r"[A-Z][a-z]?")
ELEMENTS_SHOWN = 103
"""Elements of the periodic table that is drawn."""


def campaign_data(ledger: Ledger, *, hulls: bool = True) -> dict[str, Any]:
    """Everything that the report shows.

    Args:
        hulls: Also the hull diagrams and decompositions: loading the hulls takes seconds.
    """
    run, entries = Run.read(ledger), campaign_entries(ledger)
    words = headline(entries, run.config, run.tally.proposed)
    diagrams = add_hulls(entries.shown, ledger) if hulls else {"systems": {}, "labels": {}, "note": ""}
    return {
        **overview(run, ledger),
        "head": {"title": words.title, "sentences": words.sentences, "advice": words.advice},
        "standings": {
            name: {"about": about, "count": entries.counts[name]} for name, about in STANDINGS.items()
        },
        "levels": {str(level): about for level, about in LEVELS.items()},
        "entries": entries.shown,
        "hulls": diagrams,
    }


def campaign_headline(ledger: Ledger) -> Headline:
    """The report's words alone; no crystal is decoded for them."""
    config = Config.from_ledger(ledger.config)
    return headline(campaign_entries(ledger, crystals=False), config, ledger.n_candidates)


def overview(run: Run, ledger: Ledger) -> dict[str, Any]:
    """Counts, curves, elements, histogram and time of a campaign, which may still be running."""
    config, identity = run.config, run.identity
    summary = run.summary()
    rows = list(ledger.rows(["id", "formula", "valid", "status", "novelty", "known_in", ABOVE]))
    tally = new_tally(config)
    flags = [tally.add(row) for row in rows]
    curves = {name: {**c, "name": NAMES[name]} for name, c in summary["curves"].items() if name in NAMES}
    rates = summary["of_proposed"]
    known = () if config.policy.source in SCREENED else KNOWN  # those propose neither
    limits = config.evaluation
    return {
        "about": {
            "source": SOURCES[config.policy.source], "potential": identity["potential"]["name"],
            "prior": identity["prior"]["name"], "hull": config.hull.kind, "seed": config.run.seed,
            "anchor": identity["anchor"], "structures": config.run.structures,
        },
        "identity": {
            name: f"{part['name']} {part['hash']}" if isinstance(part, Mapping) and "hash" in part else part
            for name, part in identity.items()
            if name in ("reference", "prior", "potential", "hull", "code", "threads")
        },
        "limits": {"stable": limits.stable_below, "metastable": limits.metastable_below},
        "proposed": tally.proposed,
        "counts": [
            {"name": name, "label": label, "count": tally.counts[name], "rate": rates.get(name)}
            for name, label in LABELS.items()
        ],
        "status": dict(sorted(tally.status.items())),
        "curves": {
            "rates": [
                curves[name]
                for name in RATES
                if name in curves and curves[name]["value"] != curves.get(SAME.get(name, ""), {}).get("value")
            ],
            "terms": [curves[name] for name in TERMS if name in curves],
            "known": [curves[name] for name in known if name in curves],
            "control": [curves[name] for name in CONTROL if name in curves],
        },
        "entropy_target": config.entropy.target if config.policy.source == "policy" else None,
        "found": {
            name: _counting_up([row["id"] + 1 for row, flag in zip(rows, flags, strict=True) if flag[name]])
            for name in ("msun", "sun")
        },
        "elements": _elements(rows, flags),
        "histogram": _histogram([row[ABOVE] for row in rows if row["valid"] and row[ABOVE] is not None]),
        "seconds": {name: round(seconds, 2) for name, seconds in run.seconds.items()},
        "evaluations": run.evaluations,
        "relaxations": run.relaxations,
    }  # fmt: skip


def _counting_up(when: list[int]) -> list[list[int]]:
    """(structures, found by then) of a list of arrivals, thinned out."""
    if not when:
        return []
    chosen = np.unique(np.linspace(0, len(when) - 1, MOST_POINTS).astype(int))
    return [[when[i], i + 1] for i in chosen.tolist()]


def _elements(rows: Iterable[Mapping[str, Any]], flags: Iterable[Mapping[str, bool]]) -> dict[str, list[int]]:
    """Symbol → how many candidates with it were tried, new and near the hull, new and on it."""
    found: dict[str, list[int]] = {}
    for row, flag in zip(rows, flags, strict=True):
        for symbol in set(SYMBOL.findall(row["formula"])) & NUMBER.keys():
            count = found.setdefault(symbol, [0, 0, 0])
            count[0] += 1
            count[1] += flag["msun"]
            count[2] += flag["sun"]
    return found


def _histogram(values: list[float]) -> dict[str, Any]:
    finite = np.array([value for value in values if np.isfinite(value)], dtype=np.float64)
    counts, _ = np.histogram(np.clip(finite, BINS[0], BINS[-1] - 1e-9), BINS)
    return {"edges": BINS.tolist(), "counts": counts.tolist()}


@cache
def element_table() -> list[list[Any]]:
    """By atomic number: symbol, covalent radius (Å), colour, whether it is a metal, electronegativity."""
    table: list[list[Any]] = [["", 1.0, "#888888", False, 0.0]]
    for number in range(1, ELEMENTS_SHOWN + 1):
        element = Element(SYMBOLS[number])
        color = "#" + "".join(f"{round(255 * c):02x}" for c in jmol_colors[number])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # He has none, which is fine
            chi = element.X
        table.append(
            [
                SYMBOLS[number], round(float(covalent_radii[number]), 2), color, bool(element.is_metal),
                0.0 if np.isnan(chi) else float(chi),
            ]
        )  # fmt: skip
    return table


def pack(data: Any) -> str:
    """Plain values as text that is safe inside a page: JSON, gzipped, base64."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
