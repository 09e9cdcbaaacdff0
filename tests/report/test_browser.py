"""The report in a real browser: it loads alone, sorts, filters, opens cards, draws crystals, fits a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase.io
import pytest
from browser import CHROMIUM, MISSING, Watched, launched, opened
from campaign_ledgers import candidate, delafossite, find, rock_salt, told_apart, verdict, write_ledger
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.hull.energies import load_energies
from anchor.reference.reference import load_reference
from anchor.report.assets import VIEWER, script, style
from anchor.report.data import element_table, pack
from anchor.report.entries import plain_crystal
from anchor.report.html import report_html
from anchor.report.notebook import plot_campaign, view_crystal
from anchor.search.ledger import Ledger

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=MISSING)
EVIL = "<img src=x onerror=\"window.evil=1\"></script><script>window.evil=1;alert('evil')</script>"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def ledger(place: Path) -> Ledger:
    """A campaign on the hulls that ship."""
    name = "mattersim-1m"
    checkpoint = load_energies(name, load_reference().crystals).checkpoint_hash
    return told_apart(place / "run", {"name": name, "hash": checkpoint})


@pytest.fixture(scope="module")
def report(place: Path, ledger: Ledger) -> str:
    """Its report with our own viewer: WebGL in software takes long."""
    path = place / "report.html"
    path.write_text(report_html(ledger, viewer=False))
    return path.as_uri()


@pytest.fixture
def opened_report(browser: Any, report: str) -> Iterator[Watched]:
    watched = opened(browser, report)
    yield watched
    watched.page.context.close()
    assert watched.faults == []
    assert watched.outside == []


def formulas(page: Any) -> list[str]:
    return page.locator("table.finds tbody tr button.open").all_text_contents()


def test_it_loads_alone_and_shows_finds_first(opened_report: Watched) -> None:
    page = opened_report.page
    assert page.locator("h1").text_content().startswith("2 new crystals on both hulls")
    assert formulas(page) == ["KYSe2", "RbS"]
    for name in ("found", "rates", "energies", "terms"):
        assert page.locator(f"#{name} svg").count() == 1
    assert page.locator("#elements [data-element=Na]").get_attribute("title").startswith("Na: 3 tried")


def test_it_sorts_and_filters(opened_report: Watched) -> None:
    page = opened_report.page
    for name in ("near", "far", "deep", "failed", "known"):
        page.click(f"button.chip[data-standing={name}]")
    assert len(formulas(page)) == 7
    page.click("[data-sort=above]")
    assert formulas(page)[0] == "Cs2O2"
    page.click("[data-sort=above]")
    assert formulas(page)[0] == "LiTe"
    page.fill("[data-filter=elements]", "Na")
    assert sorted(formulas(page)) == ["NaCl", "NaSe", "NaTe"]
    page.fill("[data-filter=above]", "0")
    assert sorted(formulas(page)) == ["NaCl", "NaTe"]
    page.fill("[data-filter=above]", "")
    page.fill("[data-filter=elements]", "")
    page.select_option("[data-filter=level]", "3")
    assert formulas(page) == ["KYSe2"]
    page.select_option("[data-filter=level]", "")
    page.click("#elements [data-element=Se]")
    page.click("#elements [data-element=Na]")
    assert formulas(page) == ["NaSe"]
    page.fill("[data-filter=formula]", "xyz")
    assert "Nothing matches" in page.locator("table.finds tbody").text_content()


def test_a_card_has_both_hulls_verdicts_and_files(opened_report: Watched, tmp_path: Path) -> None:
    page = opened_report.page
    page.click("text=KYSe2")
    card = page.locator("dialog.card")
    said = card.inner_text()
    assert "R-3m (166)" in said
    assert "0.5 K2Se + 0.5 Y2Se3".replace(" ", "") in said.replace("\n", "").replace(" ", "")
    assert "said at level 2" in said
    assert "sevennet-0" in said
    assert "not tried" in said  # levels 4 to 6
    assert card.locator("svg.hull polygon.chosen").count() == 1
    expected = delafossite("K", "Y", "Se")
    for ending, kind in ((".cif", "cif"), (".vasp", "vasp"), (".extxyz", "extxyz")):
        with page.expect_download() as download:
            card.locator(f"[data-file='{ending}']").click()
        path = tmp_path / f"crystal{ending}"
        download.value.save_as(path)
        atoms = ase.io.read(path, format=kind)
        assert atoms.get_chemical_formula("metal") == "K3Y3Se6"
        assert atoms.get_volume() == pytest.approx(expected.volume, rel=1e-4)
    page.click("dialog.card nav button:has-text('next')")
    assert "RbS" in card.locator("h2").text_content()
    assert "cell not relaxed" in card.inner_text()
    page.keyboard.press("Escape")
    assert not card.is_visible()


def test_the_selection_is_a_file_of_many_crystals(opened_report: Watched, tmp_path: Path) -> None:
    page = opened_report.page
    with page.expect_download() as download:
        page.click("text=Crystals (extxyz)")
    download.value.save_as(tmp_path / "finds.extxyz")
    frames = ase.io.read(tmp_path / "finds.extxyz", ":")
    assert [frame.info["formula"] for frame in frames] == ["KYSe2", "RbS"]
    assert frames[0].info["e_above_hull"] == -0.12
    with page.expect_download() as download:
        page.click("text=Table (CSV)")
    assert Path(download.value.path()).read_text().splitlines()[1].startswith('0,"KYSe2","find",3,-0.12')


def test_curves_end_with_the_last_structure(opened_report: Watched) -> None:
    """One window of 64 structures is one point in the middle, not at the end of an axis of 32."""
    page = opened_report.page
    page.evaluate(
        """() => {
          const host = document.createElement('div')
          host.id = 'tried'
          document.querySelector('main').append(host)
          const series = [{ name: 'valid', structures: [32], value: [0.9], low: [0.8], high: [1] }]
          anchor.lineChart(host, { series, xLabel: 'structures', yLabel: '%', percent: true, until: 64 })
        }"""
    )
    point = page.locator("#tried svg circle")
    width = float(page.locator("#tried svg").get_attribute("width"))
    assert 0.4 < float(point.get_attribute("cx")) / width < 0.6
    assert page.locator("#tried svg text", has_text="60").count() == 1


def colours(page: Any, selector: str) -> int:
    """How many different colours a canvas shows."""
    return page.evaluate(
        """(selector) => {
          const c = document.querySelector(selector)
          const pixels = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)
          return new Set(pixels).size
        }""",
        selector,
    )


def test_our_own_viewer_draws_and_turns(browser: Any, place: Path) -> None:
    crystal = Crystals.from_structures(delafossite("K", "Y", "Se"))
    path = place / "sketch.html"
    # a page of its own, as in a notebook without the built viewer
    path.write_text(sketch_page(plain_crystal(crystal)))
    watched = opened(browser, path.as_uri())
    page = watched.page
    page.wait_for_selector("crystal-sketch canvas")
    assert colours(page, "crystal-sketch canvas") > 200
    assert "make web" in page.locator("#crystal").inner_text()
    before = page.locator("crystal-sketch canvas").screenshot()
    box = page.locator("crystal-sketch canvas").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 180, box["y"] + 140)
    page.mouse.up()
    assert page.locator("crystal-sketch canvas").screenshot() != before
    assert watched.faults == watched.outside == []
    page.context.close()


def sketch_page(data: Any) -> str:
    return (
        f"<!doctype html><html><head><style>{style()}</style></head><body><div id=crystal></div>"
        f"<script type=text/plain id=element-data>{pack(element_table())}</script>"
        f"<script type=text/plain id=campaign-data>{pack(data)}</script>"
        f"<script>{script()}\nanchor.start(anchor.drawCrystal)</script></body></html>"
    )


def test_bonds_are_those_a_chemist_draws(browser: Any, place: Path) -> None:
    """Six Cl around Na, eight F around Ca, no metal with a metal, and of SO4 the O alone with one."""
    sulfate = Structure.from_spacegroup(
        "Pnma", Lattice.orthorhombic(8.88, 5.46, 7.16), ["Ba", "S", "O", "O", "O"],
        [[0.184, 0.25, 0.159], [0.437, 0.75, 0.191], [0.587, 0.75, 0.107], [0.318, 0.75, 0.05],
         [0.419, 0.974, 0.312]],
    )  # fmt: skip
    fluorite = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.46), ["Ca", "F"], [[0, 0, 0], [0.25] * 3])
    copper = Structure.from_spacegroup("Fm-3m", Lattice.cubic(3.61), ["Cu"], [[0, 0, 0]])
    path = place / "bonds.html"
    path.write_text(sketch_page(plain_crystal(Crystals.from_structures(copper))))
    watched = opened(browser, path.as_uri())

    def partners(structure: Structure, of: str) -> list[str]:
        """Symbols of the atoms that the first atom of an element is bonded to."""
        plain = plain_crystal(Crystals.from_structures(structure))
        return watched.page.evaluate(
            """([crystal, symbol]) => {
              const name = (z) => anchor.elements[z][0]
              const site = crystal.numbers.findIndex((z) => name(z) === symbol)
              return anchor.bonds(crystal)[site].map((n) => name(crystal.numbers[n.to])).sort()
            }""",
            [plain, of],
        )

    assert partners(rock_salt("Na", "Cl", 5.64), "Na") == ["Cl"] * 6
    assert partners(fluorite, "Ca") == ["F"] * 8
    assert partners(fluorite, "F") == ["Ca"] * 4
    assert partners(copper, "Cu") == ["Cu"] * 12
    assert partners(sulfate, "S") == ["O"] * 4
    assert set(partners(sulfate, "Ba")) == {"O"}
    assert partners(delafossite("K", "Y", "Se"), "Y") == ["Se"] * 6
    watched.page.context.close()


@pytest.mark.skipif(not VIEWER.is_file(), reason="the viewer is not built: make web")
def test_the_full_viewer_draws(browser: Any, place: Path, ledger: Ledger) -> None:
    path = place / "full.html"
    path.write_text(report_html(ledger))
    watched = opened(browser, path.as_uri())
    watched.page.click("text=KYSe2")
    watched.page.wait_for_selector("dialog.card crystal-view canvas")
    assert watched.faults == watched.outside == []
    watched.page.context.close()


def test_a_phone_shows_all_of_it(browser: Any, report: str) -> None:
    watched = opened(browser, report, viewport=PHONE)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for name in ("found", "rates", "terms"):  # legends stand above the curves, not on them
        legend = page.locator(f"#{name} .legend").bounding_box()
        plot = page.locator(f"#{name} svg").bounding_box()
        assert legend["y"] + legend["height"] <= plot["y"] + 1
        assert plot["x"] + plot["width"] <= PHONE["width"]
    page.click("text=KYSe2")
    widths = page.evaluate("(d => [d.scrollWidth, d.clientWidth])(document.querySelector('dialog'))")
    assert widths[0] <= widths[1] <= PHONE["width"]
    page.context.close()
    assert watched.faults == []


def test_dark_is_dark_and_can_be_chosen(browser: Any, report: str) -> None:
    def brightness(page: Any) -> float:
        text = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(float, text[text.index("(") + 1 : -1].split(",")[:3])) / 3

    light, dark = (opened(browser, report, color_scheme=name).page for name in ("light", "dark"))
    assert brightness(light) > 200
    assert brightness(dark) < 60
    light.click("#theme")
    assert brightness(light) < 60
    dark.click("#theme")
    assert brightness(dark) > 200
    for page in (light, dark):
        page.context.close()


def test_a_ledger_that_somebody_tampered_with_runs_nothing(browser: Any, place: Path) -> None:
    salt = rock_salt("Na", "Cl", 5.6)
    rows = [candidate(0, salt, -0.1, formula=EVIL, thin=EVIL, holes=EVIL, phases_known=EVIL, status=EVIL)]
    refined = find(0, salt, -0.1, spacegroup=EVIL, relaxation=EVIL)
    ledger = write_ledger(place / "evil", rows, [refined])
    evidence = {"decomposition": {"oqmd": EVIL}, "above_ev_per_atom": {EVIL: -0.1}, "no_answer": {EVIL: EVIL}}
    ledger.store_verdicts([verdict(refined, 1, True, reason=EVIL, evidence=evidence)])
    path = place / "evil.html"
    path.write_text(report_html(ledger))
    watched = opened(browser, path.as_uri())
    page = watched.page
    page.locator("table.finds tbody tr button.open").first.click()
    page.wait_for_selector("dialog.card h2")
    assert "onerror" in page.locator("dialog.card h2").text_content()  # it is shown, as text
    assert page.evaluate("window.evil") is None
    assert page.locator("img").count() == 0
    assert watched.faults == []
    page.context.close()


def test_a_search_without_finds_says_so(browser: Any, place: Path) -> None:
    rows = [candidate(0, rock_salt("Na", "Cl", 5.6), 0.91), candidate(1, rock_salt("Na", "Se", 6), 0.5)]
    path = place / "nothing.html"
    path.write_text(report_html(write_ledger(place / "nothing", rows, [], "action_space.must_contain=[Na]")))
    watched = opened(browser, path.as_uri())
    page = watched.page
    assert page.locator("h1").text_content() == "No find"
    assert "merely the best of this search" in page.locator(".hero").inner_text()
    assert "More structures" in page.locator(".advice").inner_text()
    assert page.locator("table.finds .chip").all_text_contents() == ["far", "far"]
    assert watched.faults == watched.outside == []
    page.context.close()


def test_a_campaign_that_has_only_begun(browser: Any, place: Path) -> None:
    path = place / "empty.html"
    path.write_text(report_html(write_ledger(place / "empty", [], [])))
    watched = opened(browser, path.as_uri())
    assert watched.page.locator("h1").text_content() == "Nothing has been tried yet"
    assert watched.faults == []
    watched.page.context.close()


def test_notebooks_show_the_same_pictures(browser: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchor.report.notebook.VIEWER", place / "nowhere.js")  # as in a fresh clone
    frames = [
        view_crystal(Crystals.from_structures(delafossite("K", "Y", "Se"))),
        plot_campaign(told_apart(place / "notebook")),
    ]
    path = place / "notebook.html"
    path.write_text("<!doctype html><body>" + "".join(frame._repr_html_() for frame in frames))
    watched = opened(browser, path.as_uri(), ready="iframe")
    crystal, curves = (watched.page.frame_locator(f"iframe >> nth={i}") for i in (0, 1))
    crystal.locator("crystal-sketch canvas").wait_for()
    curves.locator("#found svg").wait_for()
    assert repr(frames[0]) == "crystal of KYSe2 (shown in notebooks)"
    assert watched.faults == watched.outside == []
    watched.page.context.close()
