"""Crystals and campaigns in notebooks: the same pictures as in the report, in the output of a cell.

A crystal is a widget (matterviz) where anywidget is installed and `make web` was run, else the report's own
small viewer in a frame. Nothing is loaded from elsewhere in either case.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from anchor.crystals.crystals import Crystals
from anchor.report.assets import VIEWER
from anchor.report.data import overview
from anchor.report.entries import plain_crystal
from anchor.report.html import overview_body, page, text
from anchor.report.summary import Run
from anchor.search.ledger import Ledger

HEIGHT = 420
"""px of a crystal."""
PLOT_HEIGHT = 860
"""px of a campaign's curves."""


class Frame:
    """A page of its own in the output of a cell; elsewhere it says what it is.

    Args:
        content: A whole HTML page.
        about: What it shows, in a few words.
    """

    def __init__(self, content: str, about: str, *, height: int) -> None:
        self.content, self.about, self.height = content, about, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{text(self.about)}" '
            f'srcdoc="{text(self.content)}" style="width:100%;height:{self.height}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"{self.about} (shown in notebooks)"


def view_crystal(crystal: Crystals, *, height: int = HEIGHT) -> Any:
    """One crystal to turn with the mouse: a widget, or a frame where there is no widget to be had."""
    formula = crystal.formulas[0]
    if VIEWER.is_file() and find_spec("anywidget") is not None:
        structure = crystal.to_structures()[0].as_dict()
        return _widget()(structure=structure, height=height, description=formula)
    body = '<main style="padding:0"><div id="crystal"></div></main>'
    content = page(
        formula, body, plain_crystal(crystal), start="anchor.start(anchor.drawCrystal)", viewer=False
    )
    return Frame(content, f"crystal of {formula}", height=height + 40)


def plot_campaign(ledger: Ledger, *, height: int = PLOT_HEIGHT) -> Frame:
    """Curves, energies, elements and time of a campaign, which may still be running."""
    data = overview(Run.read(ledger), ledger)
    content = page(
        "anchor campaign", overview_body(data), data, start="anchor.start(anchor.drawOverview)", viewer=False
    )
    return Frame(content, f"campaign of {data['proposed']:,} compositions", height=height)


@cache
def _widget() -> Any:
    """The class of the widget; its packages load when one is shown."""
    import anywidget
    import traitlets

    class CrystalWidget(anywidget.AnyWidget):
        """<crystal-view> as a widget; the module that draws it is web/src/crystal-view.js."""

        _esm = VIEWER
        structure = traitlets.Dict().tag(sync=True)
        height = traitlets.Int(HEIGHT).tag(sync=True)
        description = traitlets.Unicode().tag(sync=True)

        def __repr__(self) -> str:
            return f"crystal of {self.description}"

    return CrystalWidget
