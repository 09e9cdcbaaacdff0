"""The page in a real browser: it loads, filters, shows crystals, follows a search, starts and stops one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from browsing import chromium, open_page
from page_folder import Page, add_candidates

from anchor.search.ledger import Ledger


@pytest.fixture(scope="module")
def started() -> Iterator[object]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def view(started: object, served: Page) -> Iterator[object]:
    """A page with the token; at the end nothing may have gone wrong."""
    with open_page(started, viewport={"width": 1280, "height": 900}) as (page, complaints):
        page.goto(served.address)
        page.wait_for_selector("h1")
        yield page
        complaints.check(urlsplit(served.base).netloc)


def total(page: object) -> int:
    text = page.locator(".total").inner_text()
    found = re.search(r"of ([\d,]+)", text)
    return int(found[1].replace(",", "")) if found else 0


def test_every_page_loads(view: object, served: Page) -> None:
    view.goto(served.base + "/")
    view.wait_for_selector("a[href='/campaign/runs~first']")
    assert "token" not in view.url
    for path, sign in {
        "/campaign/runs~first": "svg.chart",
        "/compare?key=runs~first&key=runs~second": "svg.chart",
        "/catalogue": "tr.open",
        "/new": ".choice [data-element=Na]",
    }.items():
        view.goto(served.base + path)
        view.wait_for_selector(sign)
        assert view.locator(".error").count() == 0


def test_what_is_wrong_is_said(started: object, served: Page) -> None:
    with open_page(started) as (page, complaints):
        page.goto(f"{served.base}/study/nothing")
        assert "there is no study" in page.locator(".error").inner_text()
        page.goto(f"{served.base}/catalogue?where=nonsense+%3C+3")
        assert "no field 'nonsense'" in page.locator(".error").inner_text()
        complaints.check(urlsplit(served.base).netloc, refused=2)


def test_filters_filter_and_stay_in_the_address(view: object, served: Page) -> None:
    view.goto(f"{served.base}/campaign/runs~first?of=candidates")
    view.wait_for_selector("tr.open")
    everything = total(view)
    assert everything == 96
    view.fill("input[name=elements]", "F")
    view.press("input[name=elements]", "Enter")
    view.wait_for_selector(".total:not(:has-text('of 96'))")
    assert 0 < total(view) < everything
    assert all("F" in text for text in view.locator("tr.open td:nth-child(2)").all_inner_texts())
    view.reload()
    view.wait_for_selector("tr.open")
    assert 0 < total(view) < everything
    view.fill("input[name=where]", "novelty > 0.5")
    view.press("input[name=where]", "Enter")
    view.click("th button:has-text('novelty')")
    view.wait_for_selector("th[aria-sort=ascending]")
    values = [float(text) for text in view.locator("tr.open td:nth-child(5)").all_inner_texts()]
    assert values == sorted(values)
    assert min(values) >= 0.5


def test_a_crystal_is_drawn(view: object, served: Page) -> None:
    view.goto(f"{served.base}/catalogue")
    view.click("tr.open >> nth=0")
    canvas = view.wait_for_selector("dialog canvas")
    box = canvas.bounding_box()
    assert box["width"] > 200
    view.wait_for_timeout(1000)
    seen = set(view.screenshot(clip=box))
    assert len(seen) > 50, "not one colour"
    view.keyboard.press("Escape")
    view.wait_for_selector("dialog", state="detached")


def test_a_running_search_is_followed(view: object, served: Page) -> None:
    ledger = Ledger.open(served.app.state.shop.folder.root / "runs" / "first")
    view.goto(f"{served.base}/campaign/runs~first")
    before = int(view.wait_for_selector("#count-valid b").inner_text())
    with ledger.alone():
        add_candidates(ledger, 32)
        view.wait_for_selector(f"#count-valid b:text-is('{before + 28}')")
        assert view.locator("#state").inner_text() == "running elsewhere"
    view.wait_for_selector("#state:text-is('not running')")


def test_without_the_token_the_page_only_reads(started: object, served: Page) -> None:
    with open_page(started) as (page, complaints):
        page.goto(f"{served.base}/new")
        page.wait_for_selector("text=read only")
        assert page.locator("button.main").is_disabled()
        complaints.check(urlsplit(served.base).netloc)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_room(started: object, served: Page, scheme: str) -> None:
    with open_page(started, viewport={"width": 390, "height": 844}, color_scheme=scheme) as (
        page,
        complaints,
    ):
        for path in ("/", "/campaign/runs~first", "/catalogue", "/new"):
            page.goto(served.base + path)
            page.wait_for_selector("main h1")
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        last = page.locator(".choice [data-element=Xe]").bounding_box()
        assert last["x"] + last["width"] <= 390, "all elements are in sight"
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(int(n) for n in re.findall(r"\d+", back)[:3]) / 3
        assert (brightness < 60) == (scheme == "dark")
        complaints.check(urlsplit(served.base).netloc)


def test_a_search_starts_stops_and_goes_on(view: object, served: Page) -> None:
    view.goto(f"{served.base}/new")
    for symbol in ("Na", "Na", "Cl", "Br", "I"):
        view.click(f".choice [data-element={symbol}]")
    assert view.locator("#words").inner_text() == "only Na, Cl, Br, I; always with Na"
    for name, value in {"name": "mine", "structures": "5000", "finds": "0", "verify": "0"}.items():
        view.fill(f"input[name={name}]", value)
    view.select_option("select[name=source]", "neutral")
    view.click("button.main")
    view.wait_for_url("**/campaign/runs~mine")
    view.wait_for_selector("#count-valid", timeout=600_000)
    view.reload()
    view.wait_for_selector("#state:text-is('running')")
    view.click("button:has-text('Stop after this step')")
    view.wait_for_selector("#state:text-is('not running')", timeout=600_000)
    ledger = Ledger.open(served.app.state.shop.folder.root / "runs" / "mine")
    assert 0 < ledger.n_candidates < 5000
    assert all("Na" in row["formula"] for row in ledger.rows(["formula"]))
    assert served.app.state.shop.jobs.get("runs~mine").process.returncode == 0
    before = [row["formula"] for row in ledger.rows(["formula"])]
    view.click("button:has-text('Resume')")
    view.wait_for_selector("#state:text-is('running')")
    said = "#progress .note:has-text('of 5,000 structures')"
    view.wait_for_selector(f"{said}:not(:has-text('{len(before)} of'))", timeout=600_000)
    view.click("button:has-text('Stop after this step')")
    view.wait_for_selector("#state:text-is('not running')", timeout=600_000)
    assert served.app.state.shop.jobs.get("runs~mine").command[-4:] == ["--finds", "0", "--verify", "0"]
    after = [row["formula"] for row in ledger.rows(["formula"])]
    assert len(before) < len(after) < 5000
    assert after[: len(before)] == before


ONE_STEP = """() => {
  const host = document.createElement('div')
  document.querySelector('main, body').append(host)
  const one = (name) => ({ name, structures: [8], value: [0.5], low: [0.3], high: [0.7], trials: [16] })
  anchor.lineChart(host, { series: [one('a'), one('b')], xLabel: 'x', yLabel: 'y', percent: true, until: 16 })
  return new Promise((done) => setTimeout(() => {
    const places = [...host.querySelectorAll('circle')].map((c) => Number(c.getAttribute('cx')))
    done([places, host.querySelector('svg').clientWidth])
  }, 300))
}"""


def test_campaigns_side_by_side(view: object, served: Page) -> None:
    """Axes reach the last structure, times have units, two runs of one step do not hide one another."""
    view.goto(f"{served.base}/compare?key=runs~first&key=runs~second")
    view.wait_for_selector("#curve-msun svg")
    ticks = view.eval_on_selector_all(
        "#curve-msun text:not(.axis)", "all => all.map((t) => t.textContent).filter((t) => !t.includes('%'))"
    )
    assert max(float(tick) for tick in ticks) >= 80  # of 96; the middle of the last window lies before that
    time = view.locator("tr:has(td:text-is('time')) td >> nth=1").inner_text()
    assert re.fullmatch(r"\d+ s|\d+ min|\d+\.\d h", time)
    places, width = view.evaluate(ONE_STEP)
    assert len(places) == 2
    assert 6 < places[1] - places[0] < 10
    assert max(places) < 0.7 * width, "eight of sixteen is the middle"


def test_words_name_the_campaign(view: object, served: Page) -> None:
    view.goto(f"{served.base}/campaign/runs~first")
    view.wait_for_selector("#head .said")
    assert "FOLDER" not in view.locator("#head").inner_text()
