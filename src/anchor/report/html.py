"""The report of a campaign: one HTML file that needs no network, with counts, curves, finds and crystals."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from anchor.config import Config
from anchor.errors import AnchorError
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
from anchor.outcomes.tally import LABELS, Tally
from anchor.report.crystal_view import crystal_figure
from anchor.report.curves import CURVE_COLUMNS, campaign_curves
from anchor.report.figures import entropy_figure, known_figure, rates_figure, reward_figure, time_figure
from anchor.report.summary import SOURCES, new_tally
from anchor.search.finds import VERIFIED, Finds, about
from anchor.search.ledger import Ledger, decode_crystal
from anchor.writing import OwnFiles, replace_file

VIEWED = 12
"""Finds shown in three dimensions."""
SUSPICIOUS = (
    "Deeper below the hull than 99 % of the known stable compounds of their kind: rather a missing phase or "
    "an error of the potential than a discovery, until something explains them."
)
REDISCOVERED = (
    "Formulas that ICSD, COD or the Materials Project list and the prior was not shown: good news for the "
    "method, no discoveries."
)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; margin: 2rem auto; max-width: 1080px;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 }
h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.sub { color: #666; margin-top: .2rem }
table { border-collapse: collapse }
td, th { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid #e5e5e5 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.crystals { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 1rem }
.crystal { width: 335px; border: 1px solid #e5e5e5; border-radius: 8px; padding: .6rem }
.crystal b { font-size: 1.05rem }
.note { color: #666; font-size: .9rem }
code { background: #f4f4f4; padding: .1rem .3rem; border-radius: 4px; font-size: .85rem }
"""


def write_report(ledger: Ledger, path: Path, *, own: bool = False) -> Path:
    """Write the report of a campaign and return its place.

    Args:
        path: What is there is replaced; whoever named it has been asked (`check_place`).
        own: `path` lies in the campaign's folder: a file of somebody else stays, and the report goes beside.
    """
    page = report_html(ledger)
    try:
        if not own:
            return replace_file(path, page)
        files = OwnFiles(path.parent)
        name = files.name_for(path.name)
        return files.put({name: page})[name]
    except OSError as error:
        raise AnchorError(
            f"the report could not be written to '{path}': {error}",
            "the ledger holds everything; write it again with: anchor report FOLDER --out FILE",
        ) from error


def report_html(ledger: Ledger) -> str:
    """The whole page."""
    config = Config.from_ledger(ledger.config)
    steps, found, identity = ledger.step_rows(), Finds.read(ledger), ledger.identity
    tally = new_tally(config)
    rows = [row for row in ledger.rows(CURVE_COLUMNS) if row["step"] < len(steps)]
    curves = campaign_curves(rows, steps, tally)
    potential, prior = identity["potential"]["name"], identity["prior"]["name"]
    body = [
        "<h1>anchor campaign</h1>",
        f"<p class=sub>{tally.proposed} compositions · prior {_text(prior)} · potential {_text(potential)} · "
        f"hull {_text(config.hull.kind)} · seed {config.run.seed} · anchor {_text(identity['anchor'])}</p>",
        "<h2>What came out</h2>",
        _counts(tally),
    ]
    if steps:
        body += [
            "<h2>Rates over the run, with 95 % intervals</h2>",
            _figure(rates_figure(curves)),
            "<h2>Reward and its terms (means of valid candidates)</h2>",
            _figure(reward_figure(curves)),
            *(
                ["<h2>Known formulas and repeats</h2>", _figure(known_figure(curves))]
                if config.policy.source != "screened"  # it proposes neither
                else []
            ),
            *_entropy(steps, config),
            "<h2>Where the time went</h2>",
            _figure(time_figure(steps)),
        ]
    body += ["<h2>Finds</h2>", _finds(found, potential)]
    body += ["<div class=crystals>", *(_crystal(row) for row in found.finds[:VIEWED]), "</div>"]
    if found.suspicious:
        body += ["<h2>Suspicious</h2>", f"<p class=note>{SUSPICIOUS}</p>", _table(found.suspicious)]
    if found.rediscoveries:
        body += ["<h2>Rediscoveries</h2>", f"<p class=note>{REDISCOVERED}</p>", _table(found.rediscoveries)]
    body += ["<h2>How to trust this</h2>", _provenance(identity, config)]
    script = get_plotlyjs()
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'><title>anchor campaign</title>"
        f"<style>{STYLE}</style><script>{script}</script></head><body>{''.join(body)}</body></html>"
    )


def _entropy(steps: Sequence[dict[str, Any]], config: Config) -> list[str]:
    if config.policy.source != "policy":
        return [f"<p class=note>Compositions: {SOURCES[config.policy.source]}, nothing is learned.</p>"]
    figure = entropy_figure(steps, config.entropy.target)
    return ["<h2>Entropy and its controller</h2>", _figure(figure)]


def _counts(tally: Tally) -> str:
    rows = "".join(
        f"<tr><td>{_text(label)}<td class=n>{tally.counts[name]}<td class=n>{100 * tally.rate(name):.1f} %"
        for name, label in LABELS.items()
    )
    states = ", ".join(f"{count} {_text(status)}" for status, count in sorted(tally.status.items()))
    note = (
        "Energies are those of the training reward: positions relaxed, cell fixed, at most the step budget."
    )
    return (
        f"<table><tr><th>of {tally.proposed} proposed<th class=n>count<th class=n>rate{rows}</table>"
        f"<p class=note>Status: {states}. {note}</p>"
    )


def _finds(found: Finds, potential: str) -> str:
    counts = found.counts()
    if not sum(map(len, found.groups().values())):
        return "<p class=note>No candidate has been refined yet.</p>"
    held = (
        f"<p><b>{counts['on_hull_with_finds']} of {counts['finds']}</b> are on the hull with all finds on "
        f"it; {counts['in_thin_systems']} are in chemical systems that no database knows well.</p>"
        if any(row[ABOVE_WITH_FINDS] is not None for row in found.finds)  # older ledgers do not know
        else ""
    )
    if counts["attacked"]:
        held += (
            f"<p><b>{counts['verified']} of {counts['attacked']}</b> that were attacked passed level "
            f"{VERIFIED}: 1 hulls, lists and the other finds; 2 other structures of the composition; 3 other "
            "potentials. The table is ordered by level.</p>"
        )
    return (
        "<p class=note>The best candidates whose formula is known nowhere, relaxed once more with the cell "
        f"free under {_text(potential)}. Energies above the hull in eV/atom, negative below it: against the "
        "hull that decides the reward, against that with everything else the campaign found on it, and "
        f"against the DFT hull alone.</p>{held}{_table(found.finds)}"
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    head = (
        "<tr><th class=n>level<th>formula<th>space group<th class=n>E_hull<th class=n>with finds"
        "<th class=n>DFT hull<th class=n>atoms<th>what it survived, and what to know"
    )
    lines = "".join(
        f"<tr><td class=n>{'–' if r['level'] is None else r['level']}"
        f"<td>{_formula(r['formula'])}<td>{_text(r['spacegroup'])}"
        f"<td class=n>{_energy(r[ABOVE])}<td class=n>{_energy(r[ABOVE_WITH_FINDS])}"
        f"<td class=n>{_energy(r['energy_above_each_hull_ev_per_atom'].get('dft'))}"
        f"<td class=n>{r['n_atoms']}<td class=note>{_text('; '.join(filter(None, _words(r))))}"
        for r in rows
    )
    return f"<table>{head}{lines}</table>"


def _words(row: dict[str, Any]) -> list[str]:
    """What a find survived, what speaks against it, and what the databases know of its system."""
    known = f"known compounds of the system: {row['phases_known']}" if row["phases_known"] else ""
    unfinished = "" if row["relaxation"] == "converged" else f"relaxation {row['relaxation']}"
    return [row["survived"] if (row["level"] or 0) > 1 else "", about(row), unfinished, known]


def _crystal(row: dict[str, Any]) -> str:
    figure = crystal_figure(decode_crystal(row["crystal"]), size=330)
    return (
        f"<div class=crystal><b>{_formula(row['formula'])}</b> {_text(row['spacegroup'])}, "
        f"{_energy(row[ABOVE])} eV/atom{_level(row)}{_figure(figure)}</div>"
    )


def _level(row: dict[str, Any]) -> str:
    """What a find survived, under its name."""
    if row["level"] is None:
        return ""
    words = row["why"] or row["survived"]
    return f"<div class=note>level {row['level']}: {_text(words)}</div>"


def _provenance(identity: dict[str, Any], config: Config) -> str:
    facts = {
        "reference": identity["reference"],
        "prior": f"{identity['prior']['name']} {identity['prior']['hash']}",
        "potential": f"{identity['potential']['name']} {identity['potential']['hash']}",
        "hull": identity["hull"],
        "code": identity["code"],
        "threads": identity["threads"],
    }
    rows = "".join(f"<tr><td>{_text(name)}<td><code>{_text(value)}</code>" for name, value in facts.items())
    return (
        "<p class=note>Energies come from a machine-learned potential placed on the scale of DFT references; "
        "a search optimises against it and finds its errors too. Recompute what you care about with DFT, and "
        f"look at the structures first. Seed {config.run.seed} and these parts give it again:</p>"
        f"<table>{rows}</table>"
    )


def _figure(figure: go.Figure) -> str:
    return figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})


def _formula(formula: str) -> str:
    return "".join(f"<sub>{c}</sub>" if c.isdigit() else html.escape(c) for c in formula)


def _energy(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _text(value: Any) -> str:
    return html.escape(str(value))
