"""The report of a campaign: one HTML file that needs no network. Its parts are functions of plain values.

What is read without a script (head, counts, provenance) is HTML made here; curves, table, cards and crystals
are drawn in the browser from the packed data (`anchor.report.data`) by the scripts in static/.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from anchor.errors import AnchorError
from anchor.report.assets import packed_viewer, script, style
from anchor.report.data import campaign_data, element_table, pack
from anchor.search.ledger import Ledger
from anchor.writing import OwnFiles, replace_file

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; "
    "img-src data: blob:; font-src data:; connect-src data: blob:; worker-src blob:"
)
"""What a browser lets the file do: run what it holds, and ask nobody."""
TRUST = (
    "Energies come from a machine-learned potential placed on the scale of DFT references; a search "
    "optimises against it and finds its errors too. Recompute what you care about with DFT, and look at the "
    "structures first."
)


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


def report_html(ledger: Ledger, *, viewer: bool = True) -> str:
    """The whole page.

    Args:
        viewer: Whether the built crystal viewer may be part of it; our own small one always is.
    """
    data = campaign_data(ledger)
    return page("anchor: " + data["head"]["title"], report_body(data), data, viewer=viewer)


def page(
    title: str, body: str, data: Any, *, start: str = "anchor.start(anchor.drawReport)", viewer: bool = True
) -> str:
    """A self-contained page: styles, scripts, the body, packed data, and the viewer where it was built.

    Args:
        start: JavaScript that begins: the function it names gets the data.
        viewer: Whether the built viewer (1.7 MB) may be part of it.
    """
    bundle = packed_viewer() if viewer else None
    held = "" if bundle is None else f'<script type="text/plain" id="viewer-bundle">{bundle}</script>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style()}</style></head><body>{body}"
        f'<script type="text/plain" id="element-data">{pack(element_table())}</script>'
        f'<script type="text/plain" id="campaign-data">{pack(data)}</script>{held}'
        f"<script>{script()}\n{start}</script></body></html>"
    )


def report_body(data: dict[str, Any]) -> str:
    """Everything between <body> and the scripts; `anchor.drawReport(data)` fills it."""
    return (
        f"<main>{hero(data)}{advice(data)}"
        '<section id="finds"><h2>Crystals</h2><p class="note" id="fault"></p><div id="table"></div></section>'
        f'<div class="grid2">{charts(data)}{_section("What came out", counts(data))}'
        f"{_section('How far to trust this', provenance(data))}</div></main>"
    )


def overview_body(data: dict[str, Any]) -> str:
    """Charts alone, of a campaign that may still be running; `anchor.drawOverview(data)` fills it."""
    return f'<main><p class="note" id="fault"></p><div class="grid2">{charts(data)}</div></main>'


def charts(data: dict[str, Any]) -> str:
    """Places of all charts that a campaign has data for."""
    curves = data["curves"]
    return (
        f"{_box('found', 'Found over the run')}"
        f"{_box('rates', 'Rates over the run, 95 % intervals')}"
        f"{_box('energies', 'Energies above the hull')}"
        f"{_box('elements', 'Elements')}"
        f"{_box('terms', 'Reward and its terms, means of valid candidates', TERMS_NOTE)}"
        + (_box("entropy", "Entropy and its controller", "Dotted: target.") if curves["control"] else "")
        + (_box("known", "Known formulas and repeats") if curves["known"] else "")
        + f"{_box('time', 'Where the time went')}"
    )


TERMS_NOTE = (
    "Bands: 95 % intervals, whole steps resampled; where a window holds one step there is none. Energies of "
    "the search: positions relaxed, cell fixed."
)


def hero(data: dict[str, Any]) -> str:
    """Head of the report: what came out, in words and in a few numbers."""
    head, about, standings = data["head"], data["about"], data["standings"]
    tiles = [(data["proposed"], "compositions tried")]
    tiles += [
        (standings[name]["count"], words)
        for name, words in (
            ("find", "new, on the hull"), ("near", "new, near it"), ("known", "rediscovered"),
            ("deep", "too deep to believe"), ("failed", "broken by checks"),
        )
        if standings[name]["count"] or name == "find"
    ]  # fmt: skip
    passed = sum((e.get("level") or 0) >= 3 for e in data["entries"] if e["standing"] == "find")
    if passed:
        tiles.insert(2, (passed, "passed other potentials"))
    numbers = "".join(f'<div class="tile"><b>{n:,}</b><span>{text(words)}</span></div>' for n, words in tiles)
    sentences = "".join(f"<p>{text(sentence)}</p>" for sentence in head["sentences"])
    return (
        '<section class="hero"><div class="top"><p class="sub">anchor search · '
        f"{text(about['source'])} · prior {text(about['prior'])} · potential {text(about['potential'])} · "
        f"hull {text(about['hull'])} · seed {text(about['seed'])}</p>"
        '<button type="button" id="theme" aria-label="Light or dark">◐</button></div>'
        f'<h1>{text(head["title"])}</h1>{sentences}<div class="tiles">{numbers}</div></section>'
    )


def advice(data: dict[str, Any]) -> str:
    """What to try after a search without finds."""
    if not data["head"]["advice"]:
        return ""
    lines = "".join(f"<li>{text(line)}</li>" for line in data["head"]["advice"])
    return f'<section class="advice"><h2>What to try</h2><ul>{lines}</ul></section>'


def counts(data: dict[str, Any]) -> str:
    """Counts of the paper's definitions, with rates and their 95 % intervals."""
    lines = "".join(
        f'<tr><td>{text(one["label"])}<td class="n">{one["count"]:,}<td class="n">{_rate(one["rate"])}'
        for one in data["counts"]
    )
    states = ", ".join(f"{n:,} {text(name)}" for name, n in data["status"].items())
    return (
        f'<div class="scroll"><table><tr><th>of {data["proposed"]:,} proposed<th class="n">count'
        f'<th class="n">rate, 95 %{lines}</table></div><p class="note">Status: {states}. MSUN: metastable '
        f"(at most {data['limits']['metastable']:g} eV/atom above the hull), unique, novel; SUN: stable, "
        "unique, novel. Both under the search's quick relaxation, and formulas that are known in another "
        "structure count too; the table of crystals leaves those out.</p>"
    )


def provenance(data: dict[str, Any]) -> str:
    """What to believe, and the parts that give the same again."""
    lines = "".join(
        f"<tr><td>{text(name)}<td><code>{text(value)}</code>" for name, value in data["identity"].items()
    )
    return (
        f'<p>{TRUST}</p><p class="note">{data["relaxations"]:,} relaxations, {data["evaluations"]:,} calls '
        f"of the potential. anchor {text(data['about']['anchor'])}, seed {text(data['about']['seed'])} and "
        f'these parts give it again:</p><div class="scroll"><table>{lines}</table></div>'
    )


def text(value: Any) -> str:
    """Any value as text inside HTML."""
    return html.escape(str(value))


def _rate(rate: list[float] | None) -> str:
    if rate is None:
        return ""
    value, low, high = (100 * share for share in rate)
    return f'{value:.1f} %<span class="wide"> ({low:.1f}–{high:.1f})</span>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def _box(name: str, title: str, note: str = "") -> str:
    """A place that a script draws into."""
    said = f'<p class="note">{text(note)}</p>' if note else ""
    return f'<section><h2>{text(title)}</h2><div id="{name}"></div>{said}</section>'
