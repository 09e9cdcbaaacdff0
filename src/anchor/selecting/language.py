"""From text to a tree: words, then a parser of one function per rule.

any      = all { "or" all }
all      = not { "and" not }
not      = "not" not | "(" any ")" | about
about    = number sign field [ sign number ]
         | field ( sign value [ sign … ] | "in" list | "contains" text | "is" [ "not" ] "missing"
                 | "has" [ "any" ] list | "within" list | nothing, of a flag )
list     = value | "(" value { "," value } ")"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from anchor.chemistry.composition import parse_formula
from anchor.chemistry.symbols import check_symbols
from anchor.errors import InputError, nearest
from anchor.selecting.fields import SPELLINGS, Field
from anchor.selecting.tree import (
    All,
    Among,
    Any_,
    Compare,
    Contains,
    Has,
    Missing,
    Node,
    Not,
    Selection,
    Value,
    Within,
)

LONGEST = 4000
"""Characters of a selection."""
DEEPEST = 50
"""Brackets and nots inside one another: the parser calls itself for each."""
EXAMPLE = "for example: e_hull < 0.03 and nelements = 3 and elements has Na"
SIGNS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
"""Other ways to write a sign."""
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""A sign seen from its other side."""
KEYWORDS = {
    "all", "and", "any", "contains", "false", "has", "in", "is", "missing", "not", "or", "true", "within",
}  # fmt: skip
TOKEN = re.compile(
    r"""
    (?P<number> [+-]? (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? (?![A-Za-z_0-9.]) )
    | (?P<text> "[^"]*" | '[^']*' )
    | (?P<word> [A-Za-z_0-9] [A-Za-z_0-9./-]* )
    | (?P<sign> <= | >= | != | <> | == | [<>=≤≥≠] )
    | (?P<mark> [(),] )
    """,
    re.VERBOSE,
)


class SelectionError(InputError):
    """A selection that cannot be understood.

    Attributes:
        at: Where in the text, from 0.
        length: Of the words in question.
    """

    def __init__(self, message: str, text: str, at: int, length: int, hint: str | None = None) -> None:
        marked = f"{text}\n  {' ' * at}{'^' * max(length, 1)}"
        super().__init__(f"{message}, column {at + 1}", f"{marked}\n  {hint}" if hint else marked)
        self.at, self.length = at, length


@dataclass(frozen=True)
class Token:
    """A word of the text: its kind (a group of `TOKEN`, or 'end'), itself, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """In lower case if it may be a keyword, else ''."""
        return self.text.lower() if self.kind == "word" else ""


def parse(text: str) -> Selection:
    """The selection that a text describes.

    Raises:
        SelectionError: It says none; the error points at the place.
    """
    if len(text) > LONGEST:
        raise InputError(f"the selection has {len(text)} characters, over {LONGEST}", EXAMPLE)
    if "\n" in text or "\t" in text:
        text = re.sub(r"\s", " ", text)  # so that a mark below it stands under its word
    return Selection(text, _Parser(text).whole())


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = TOKEN.match(text, at)
        if match is None:
            if text[at] in "\"'":
                raise SelectionError("a quotation is not closed", text, at, len(text) - at)
            raise SelectionError(f"'{text[at]}' means nothing here", text, at, 1, EXAMPLE)
        assert match.lastgroup is not None
        found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(text))]


class _Parser:
    """Reads the words of one text from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.place, self.depth = text, _tokens(text), 0, 0

    @property
    def now(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.now
        self.place += token.kind != "end"
        return token

    def took(self, *words: str) -> bool:
        """Whether the next word is one of these keywords or marks; if so it is read."""
        if self.now.word in words or (self.now.kind == "mark" and self.now.text in words):
            self.place += 1
            return True
        return False

    def error(self, message: str, token: Token | None = None, hint: str | None = None) -> SelectionError:
        token = token or self.now
        return SelectionError(message, self.text, token.at, len(token.text), hint)

    def whole(self) -> Node:
        if self.now.kind == "end":
            raise self.error("the selection is empty", hint=EXAMPLE)
        root = self.any()
        if self.now.kind != "end":
            raise self.error(f"'{self.now.text}' does not go on from here", hint="join conditions by and, or")
        return root

    def any(self) -> Node:
        return self._joined("or", self.all, Any_)

    def all(self) -> Node:
        return self._joined("and", self.negated, All)

    def _joined(self, word: str, part: Callable[[], Node], kind: type[All] | type[Any_]) -> Node:
        parts = [part()]
        while self.took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def negated(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets inside one another")
        try:
            if self.took("not"):
                return Not(self.negated())
            if self.took("("):
                found = self.any()
                if not self.took(")"):
                    raise self.error("a bracket is not closed", hint="add a )")
                return found
            return self.about()
        finally:
            self.depth -= 1

    def about(self) -> Node:
        if self.now.kind == "number":
            return self.number_first()
        token = self.now
        field = self.field()
        if self.now.kind == "sign":
            return self.compared(field)
        if self.took("in"):
            return Among(field, self.values(field))
        if self.took("contains"):
            if field.kind != "text":
                raise self.error(f"{field.name} is no text", token)
            return Contains(field, str(self.plain()))
        if self.took("is"):
            wanted = not self.took("not")
            if not self.took("missing"):
                raise self.error("'is' asks for: is missing, is not missing")
            return Missing(field) if wanted else Not(Missing(field))
        if self.took("has"):
            one = self.took("any")
            if not one:
                self.took("all")
            return Has(field, self.symbols(field, token), one)
        if self.took("within"):
            return Within(field, self.symbols(field, token))
        if field.kind == "flag":
            return Compare(field, "=", True)
        raise self.error(
            f"{field.name} needs a comparison", hint=f"for example: {field.name} {SAMPLES[field.kind]}"
        )

    def field(self) -> Field:
        token = self.take()
        found = SPELLINGS.get(token.text.lower()) if token.kind == "word" else None
        if found is None:
            what = f"there is no field '{token.text}'" if token.text else "a field is missing"
            raise self.error(what, token, nearest(token.text.lower(), SPELLINGS))
        return found

    def sign(self) -> str:
        token = self.take()
        if token.kind != "sign":
            raise self.error("a comparison is missing", token, "one of: = != < <= > >=")
        return SIGNS.get(token.text, token.text)

    def number_first(self) -> Node:
        """`0 < e_hull`, `0 < e_hull <= 0.1`."""
        number, sign = self.take(), self.sign()
        field = self.field()
        if field.kind != "number":
            raise self.error(f"{field.name} is not compared with a number", number)
        first = Compare(field, TURNED[sign], float(number.text))
        return All((first, self.compared(field))) if self.now.kind == "sign" else first

    def compared(self, field: Field) -> Node:
        token, sign = self.now, self.sign()
        if field.kind == "elements":
            raise self.error("elements are not compared", token, "for example: elements has Na")
        if field.kind != "number" and sign not in ("=", "!="):
            raise self.error(f"{field.name} has no order", token, "compare it by = or !=")
        return Compare(field, sign, self.value(field))

    def values(self, field: Field) -> tuple[Value, ...]:
        if field.kind == "elements":
            raise self.error("elements are not in a list", hint="for example: elements has Na")
        return tuple(self.listed(lambda: self.value(field)))

    def listed(self, one: Callable[[], Value]) -> list[Value]:
        """One value, or several in brackets."""
        if not self.took("("):
            return [one()]
        found = [one()]
        while self.took(","):
            found.append(one())
        if not self.took(")"):
            raise self.error("a list is not closed", hint="values in brackets, with commas: (Na, K)")
        return found

    def symbols(self, field: Field, token: Token) -> tuple[str, ...]:
        if field.kind != "elements":
            raise self.error(f"{field.name} holds no elements", token, "for example: elements has Na")
        place = self.now
        found = tuple(str(value) for value in self.listed(self.plain))
        try:
            check_symbols(found)
        except InputError as error:
            raise self.error(error.message, place, error.hint) from None
        return found

    def value(self, field: Field) -> Value:
        """A value of the field's kind."""
        token = self.now
        if field.kind == "number":
            if token.kind != "number":
                raise self.error(f"{field.name} is compared with a number", token)
            return float(self.take().text)
        if field.kind == "flag":
            if not self.took("true", "false"):
                raise self.error(f"{field.name} is true or false", token)
            return token.word == "true"
        text = self.plain()
        if field.name != "formula":
            return text
        try:
            return parse_formula(text).formula  # 'ClNa' and 'Na2Cl2' are NaCl
        except InputError as error:
            raise self.error(error.message, token, error.hint) from None

    def plain(self) -> str:
        """A word or a quotation."""
        token = self.take()
        if token.kind == "text":
            return token.text[1:-1]
        if token.kind not in ("word", "number") or token.word in KEYWORDS:
            raise self.error("a value is missing", token)
        return token.text


SAMPLES = {
    "number": "< 0.1",
    "text": '= "…"',
    "flag": "= true",
    "elements": "has Na",
}
"""What may follow a field of each kind."""
