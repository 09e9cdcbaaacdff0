"""The shell of each page: the scripts fill it. No text of a ledger is ever put into HTML here."""

from __future__ import annotations

import html

from anchor.report import assets

PAGES = {
    "/": "overview",
    "/campaign/{key}": "campaign",
    "/compare": "compare",
    "/catalogue": "catalogue",
    "/evaluation/{key}": "evaluation",
    "/study/{key}": "study",
    "/new": "new",
}
"""Addresses of pages, and the script that fills each."""

NAVIGATION = {"/": "Folder", "/catalogue": "Catalogue", "/new": "New search", "/optimade/v1/info": "OPTIMADE"}


def page(name: str, *, viewer: bool) -> str:
    """A page without content.

    Args:
        name: Of the script.
        viewer: The crystal viewer is built.
    """
    scripts = "".join(f'<script defer src="/static/report/{part}.js"></script>' for part in assets.SCRIPTS)
    links = "".join(f'<a href="{path}">{html.escape(text)}</a>' for path, text in NAVIGATION.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<title>anchor</title>"
        '<link rel="icon" href="/static/page/icon.svg">'
        '<link rel="stylesheet" href="/static/report/style.css">'
        '<link rel="stylesheet" href="/static/page/style.css">'
        f"{scripts}"
        f'<script type="module" src="/static/page/{name}.js"></script></head>'
        f'<body data-viewer="{"yes" if viewer else "no"}">'
        f'<header><a class="brand" href="/">anchor</a><nav>{links}</nav>'
        '<button type="button" id="theme" aria-label="Light or dark">◐</button></header>'
        '<main id="main"><p class="note">loading …</p></main></body></html>'
    )
