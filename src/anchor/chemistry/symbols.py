"""Lists of element symbols as people type them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from anchor.chemistry.elements import INDEX, NUMBER
from anchor.errors import InputError, nearest


def read_symbols(text: str) -> tuple[str, ...]:
    """'Li, Fe O' as ('Li', 'Fe', 'O').

    Raises:
        InputError: It names nothing, or no element; 'li,fe' is answered by 'did you mean Li,Fe?'.
    """
    symbols = tuple(part for part in re.split(r"[\s,]+", text) if part)
    if not symbols:
        raise InputError(f"'{text}' names no element", "give a comma-separated list, e.g. Li,Fe,O")
    check_symbols(symbols)
    return symbols


def check_symbols(symbols: Iterable[str]) -> None:
    """Refuse what is no element, with the spelling that is."""
    given = list(symbols)
    wrong = [symbol for symbol in given if symbol not in NUMBER]
    if not wrong:
        return
    mended = [symbol.capitalize() for symbol in given]
    if all(symbol in NUMBER for symbol in mended):
        raise InputError(f"'{wrong[0]}' is not an element", f"did you mean {','.join(mended)}?")
    unknown = next(symbol for symbol in wrong if symbol.capitalize() not in NUMBER)
    raise InputError(f"'{unknown}' is not an element", near_symbol(unknown))


def near_symbol(symbol: str) -> str:
    """The symbol that was meant, those that begin alike, or how they look; a list of 84 helps nobody."""
    alike = [known for known in INDEX if known[0] == symbol[:1].upper()]
    return nearest(symbol.capitalize(), alike) if alike else "symbols look like Li, Fe, O"
