"""Formulas as text: the reduced formula, which is the key of everything, and reading what people type."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

from anchor.chemistry.elements import INDEX, NUMBER, SYMBOLS
from anchor.chemistry.symbols import near_symbol
from anchor.errors import InputError

POLYANION_DIFFERENCE = 1.65
"""pymatgen writes the two most electronegative elements as a group, '(PO4)3', below this difference."""

LARGEST_AMOUNT = 999_999
LONGEST_AMOUNT = 12  # digits


@cache
def _electronegativity() -> dict[str, float]:
    """Pauling electronegativity (NaN: unknown) by symbol, symbols in the order of pymatgen's formulas."""
    from pymatgen.core import Element

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pymatgen warns for the elements that have none
        values = {symbol: float(Element(symbol).X) for symbol in SYMBOLS[1:]}
    order = sorted(values, key=lambda s: (math.inf if math.isnan(values[s]) else values[s], s))
    return {symbol: values[symbol] for symbol in order}


@cache
def _rank() -> dict[str, int]:
    return {symbol: rank for rank, symbol in enumerate(_electronegativity())}


@cache
def _special_formulas() -> dict[str, str]:
    """Formulas that pymatgen does not reduce completely: peroxides and diatomic gases."""
    from pymatgen.core import Composition

    return dict(Composition.special_formulas)


def reduced_formula(symbols: Sequence[str], counts: Sequence[int]) -> str:
    """The reduced formula, letter for letter as pymatgen's `Composition.reduced_formula`.

    Args:
        symbols: Distinct element symbols in any order.  # [k]
        counts: Atoms of each, positive integers.  # [k]
    """
    rank = _rank()
    divisor = math.gcd(*counts)
    amounts = sorted(zip(symbols, counts, strict=True), key=lambda pair: rank[pair[0]])
    tail = ""
    if len(amounts) > 2:
        (a, n_a), (b, n_b) = amounts[-2:]
        groups = math.gcd(n_a, n_b) // divisor
        chi = _electronegativity()
        if groups > 1 and chi[b] - chi[a] < POLYANION_DIFFERENCE:
            unit = divisor * groups
            tail = f"({_join([(a, n_a // unit), (b, n_b // unit)])}){groups}"
            del amounts[-2:]
    formula = _join([(symbol, n // divisor) for symbol, n in amounts]) + tail
    return _special_formulas().get(formula, formula)


def plain_formula(symbols: Iterable[str], counts: Iterable[int]) -> str:
    """Symbols and counts one after the other as they come: 'Li4Fe2Si2O8'."""
    return _join(zip(symbols, counts, strict=True))


def _join(amounts: Iterable[tuple[str, int]]) -> str:
    return "".join(symbol if n == 1 else f"{symbol}{n}" for symbol, n in amounts)


# Reading what people type

_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_OPEN = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile(r"(?P<symbol>[A-Z][a-z]?)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<dot>[·•*])")
_AMOUNT = re.compile(r"\d*\.\d+|\d+\.?")


def parse_amounts(text: str) -> dict[str, int]:
    """Atoms by element of a formula, in the order of first mention.

    Brackets, hydrates ('CuSO4·5H2O'), subscripts and spaces between correctly written symbols are understood.

    Raises:
        InputError: It is no formula of whole atoms; where one can be guessed, the hint writes it out.
    """
    formula = text.strip().translate(_SUBSCRIPTS)
    if not formula:
        raise InputError("the formula is empty", "write for instance Li2FeSiO4")
    try:
        amounts = _parse(formula)
    except InputError as error:
        raise InputError(
            f"'{text}' is no formula: {error.message}", _suggestion(formula) or error.hint
        ) from None
    if any(n.denominator != 1 for n in amounts.values()):
        whole = math.lcm(*(n.denominator for n in amounts.values()))
        hint = "write whole numbers of atoms"
        if whole <= 100:
            hint += f", for instance {_join([(s, int(n * whole)) for s, n in amounts.items()])}"
        raise InputError(f"'{text}' has a fractional number of atoms", hint)
    for symbol, n in amounts.items():
        if not 0 < n <= LARGEST_AMOUNT:
            raise InputError(f"'{text}' has {n} atoms of {symbol}", f"write 1 to {LARGEST_AMOUNT} atoms")
    return {symbol: int(n) for symbol, n in amounts.items()}


def _parse(formula: str) -> dict[str, Fraction]:
    """Amounts by element, with a stack of open brackets."""
    stack: list[tuple[str, dict[str, Fraction]]] = [("", {})]
    finished: dict[str, Fraction] = {}  # parts before the last dot of a hydrate
    multiplier, place = _amount(formula, 0)
    while place < len(formula):
        if formula[place].isspace():
            place += 1
            continue
        token = _TOKEN.match(formula, place)
        if token is None:
            raise _unreadable(formula[place])
        place = token.end()
        current = stack[-1][1]
        if symbol := token["symbol"]:
            if symbol not in NUMBER:
                raise InputError(f"there is no element '{symbol}'", near_symbol(symbol))
            amount, place = _amount(formula, place)
            current[symbol] = current.get(symbol, Fraction(0)) + amount
        elif opening := token["open"]:
            stack.append((opening, {}))
        elif closing := token["close"]:
            opening, group = stack.pop()
            if _OPEN.get(opening) != closing:
                raise InputError(f"a '{closing}' closes nothing", "check the brackets")
            amount, place = _amount(formula, place)
            _add(stack[-1][1], group, amount)
        else:
            if len(stack) > 1 or not current:
                raise _unreadable(token[0])
            _add(finished, current, multiplier)
            current.clear()
            multiplier, place = _amount(formula, place)
    if len(stack) > 1:
        raise InputError(f"a '{stack[-1][0]}' is never closed", "check the brackets")
    if not stack[0][1]:
        raise _unreadable(formula[-1])
    _add(finished, stack[0][1], multiplier)
    return finished


def _add(total: dict[str, Fraction], part: dict[str, Fraction], times: Fraction) -> None:
    for symbol, amount in part.items():
        total[symbol] = total.get(symbol, Fraction(0)) + amount * times


def _amount(formula: str, place: int) -> tuple[Fraction, int]:
    """The number at `place` (1 when there is none) and where it ends."""
    match = _AMOUNT.match(formula, place)
    if match is None:
        return Fraction(1), place
    if len(match[0]) > LONGEST_AMOUNT:
        raise InputError(f"an amount has {len(match[0])} digits", "check the number")
    return Fraction(match[0].rstrip(".")), match.end()


def _unreadable(character: str) -> InputError:
    hint = "leave out charges" if character in "+-⁺⁻" else "write symbols and whole numbers, as in Li2FeSiO4"
    return InputError(f"'{character}' cannot be read", hint)


def _suggestion(formula: str) -> str | None:
    """'did you mean …?' when the letters make a formula with other capitals; the fewest elements win."""
    words = re.findall(r"[A-Za-z]+|[^A-Za-z\s]+", formula)
    fixed = [_capitals(word) if word.isalpha() else word for word in words]
    if None in fixed:
        return None
    guess = "".join(word or "" for word in fixed)
    try:
        _parse(guess)
    except InputError:
        return None
    return f"did you mean '{guess}'?"


def _capitals(word: str) -> str | None:
    """The letters of `word` as symbols, or None: fewest outside the vocabulary, then fewest in all."""
    best: list[tuple[int, int, str] | None] = [(0, 0, "")]
    for end in range(1, len(word) + 1):
        options = []
        for size in (2, 1):
            symbol = word[max(end - size, 0) : end].capitalize()
            before = best[end - size] if end >= size else None
            if symbol in NUMBER and before is not None:
                options.append((before[0] + (symbol not in INDEX), before[1] + 1, before[2] + symbol))
        best.append(min(options, key=lambda option: option[:2]) if options else None)
    final = best[-1]
    return None if final is None else final[2]
