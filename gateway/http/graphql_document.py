"""Reads the operation of a GraphQL document: its kind and its root fields. No I/O.

Access rules use the result. Nothing is executed. A document must have exactly one operation, and can have fragments.
The reader refuses syntax that versions of GraphQL read differently (https://spec.graphql.org/draft/#sec-Language):
block strings, control characters, variables of fragments, type definitions. Directives such as ``@include`` are not
evaluated. So a field counts even if a directive would skip the field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MAX_CHARS: Final = 64 * 1024
MAX_TOKENS: Final = 20_000
MAX_DEPTH: Final = 64
KINDS: Final = frozenset({"query", "mutation", "subscription"})
_CLOSING_BRACKETS: Final = {"{": "}", "(": ")", "[": "]"}
_ALL_CLOSING: Final = frozenset(_CLOSING_BRACKETS.values())
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")
_TOKEN: Final = re.compile(
    r"""
      [\ \t\n,]+ | \r\n                              # white space and commas, which have no meaning
    | \#[^\n\r]*
    | (?P<block>\"\"\")
    | (?P<text>"(?:[^"\\\n\r]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*")
    | (?P<name>[_A-Za-z][_0-9A-Za-z]*)
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9A-Za-z_.])
    | (?P<sign>\.\.\.|[!$&()\[\]{}:=@|])
    """,
    re.VERBOSE,
)
_FORBIDDEN_CHARS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


class AmbiguousDocument(ValueError):
    """The document is malformed or ambiguous. The message is the end of a sentence that begins with "the document"."""


@dataclass(frozen=True, slots=True)
class GraphqlOperation:
    """The operation of a document.

    `kind`: ``query``, ``mutation`` or ``subscription``. `name`: empty if the operation has no name. `fields`: the names
    (not aliases) of the root fields, including the fields of fragments.
    """

    kind: str
    name: str
    fields: tuple[str, ...]


@dataclass(slots=True)
class _Selection:
    """A selection set at the root.

    `fields`: the names of the fields. `spreads`: the names of the fragments that the selection set spreads.
    """

    fields: list[str] = field(default_factory=list)
    spreads: list[str] = field(default_factory=list)


def operation_of(text: str) -> GraphqlOperation:
    """Return the document's operation. Raises AmbiguousDocument."""
    tokens = _Tokens(_tokens(text))
    operations: list[tuple[str, str, _Selection]] = []
    fragments: dict[str, _Selection] = {}
    while (first_lexeme := tokens.next()) is not None:
        if first_lexeme == "{":
            operations.append(("query", "", tokens.selection()))
        elif first_lexeme == "fragment":
            name = tokens.name("a fragment")
            if name == "on" or name in fragments:
                raise AmbiguousDocument(f"has a fragment '{name[:64]}' that is named 'on' or defined twice")
            tokens.expect("on")
            tokens.name("a type")
            tokens.directives()
            tokens.expect("{")
            fragments[name] = tokens.selection()
        elif first_lexeme in KINDS:
            name = tokens.next() or "" if _NAME.fullmatch(tokens.peek()) else ""
            if tokens.peek() == "(":
                tokens.skip_group()
            tokens.directives()
            tokens.expect("{")
            operations.append((first_lexeme, name, tokens.selection()))
        else:
            raise AmbiguousDocument(f"contains '{first_lexeme[:64]}' where an operation or a fragment begins")
    if len(operations) != 1:
        raise AmbiguousDocument(f"has {len(operations)} operations; send one")
    kind, name, selection = operations[0]
    return GraphqlOperation(kind, name, tuple(_all_fields(selection, fragments)))


def _all_fields(selection: _Selection, fragments: Mapping[str, _Selection]) -> list[str]:
    names = dict.fromkeys(selection.fields)
    pending, visited = list(selection.spreads), set[str]()
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        if name not in fragments:
            raise AmbiguousDocument(f"spreads the fragment '{name[:64]}', which it does not define")
        names |= dict.fromkeys(fragments[name].fields)
        pending += fragments[name].spreads
    if not names:
        raise AmbiguousDocument("selects no field")
    return list(names)


def _tokens(text: str) -> list[str]:
    """Return the document's names, signs and values. Each string becomes ``""``, and each number becomes ``0``."""
    if len(text) > MAX_CHARS:
        raise AmbiguousDocument(f"has more than {MAX_CHARS} characters; pass values as variables")
    if (forbidden_char := _FORBIDDEN_CHARS.search(text)) is not None:
        raise AmbiguousDocument(
            f"contains the character U+{ord(forbidden_char[0]):04X}, which some parsers read as the end of a line"
        )
    return list(_lex(text))


def _lex(text: str) -> Iterator[str]:
    position = count = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise AmbiguousDocument(f"cannot be read at character {position + 1}")
        position = match.end()
        kind = match.lastgroup
        if kind is None:
            continue
        if kind == "block":
            raise AmbiguousDocument("contains a block string; pass the text as a variable")
        count += 1
        if count > MAX_TOKENS:
            raise AmbiguousDocument(f"has more than {MAX_TOKENS} tokens")
        yield {"text": '""', "number": "0"}.get(kind) or match[0]


class _Tokens:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str:
        """Return the next token without consuming it; empty at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def next(self) -> str | None:
        token = self.peek()
        self._position += 1
        return token or None

    def expect(self, expected: str) -> None:
        if self.next() != expected:
            raise AmbiguousDocument(f"lacks a required '{expected}'")

    def name(self, subject: str) -> str:
        token = self.next() or ""
        if not _NAME.fullmatch(token):
            raise AmbiguousDocument(f"lacks the name of {subject}")
        return token

    def skip_group(self) -> None:
        """Skip a group in brackets with its nested groups. Raises AmbiguousDocument if the brackets do not match."""
        expected_closings: list[str] = []
        while True:
            token = self.next()
            if token is None:
                raise AmbiguousDocument("ends within brackets")
            if token in _CLOSING_BRACKETS:
                expected_closings.append(_CLOSING_BRACKETS[token])
                if len(expected_closings) > MAX_DEPTH:
                    raise AmbiguousDocument(f"nests deeper than {MAX_DEPTH} levels")
            elif token in _ALL_CLOSING:
                if not expected_closings or expected_closings.pop() != token:
                    raise AmbiguousDocument(f"has a '{token}' that closes nothing")
                if not expected_closings:
                    return

    def directives(self) -> None:
        while self.peek() == "@":
            self.next()
            self.name("a directive")
            if self.peek() == "(":
                self.skip_group()

    def selection(self, depth: int = 1) -> _Selection:
        """Read a selection set up to its ``}``. The caller has already consumed the ``{``."""
        if depth > MAX_DEPTH:
            raise AmbiguousDocument(f"nests deeper than {MAX_DEPTH} levels")
        selection = _Selection()
        while True:
            lexeme = self.next()
            if lexeme == "}":
                return selection
            if lexeme == "...":
                self._spread(selection, depth)
            elif lexeme is not None and _NAME.fullmatch(lexeme):
                selection.fields.append(self._field(lexeme))
            else:
                raise AmbiguousDocument("has something other than a field at its root")

    def _spread(self, selection: _Selection, depth: int) -> None:
        """Read the fragment's name or the inline fragment after ``...``. The fragment's fields count as root fields."""
        if _NAME.fullmatch(self.peek()) and self.peek() != "on":
            selection.spreads.append(self.name("a fragment"))
            self.directives()
            return
        if self.peek() == "on":
            self.next()
            self.name("a type")
        self.directives()
        self.expect("{")
        inline_selection = self.selection(depth + 1)
        selection.fields += inline_selection.fields
        selection.spreads += inline_selection.spreads

    def _field(self, name: str) -> str:
        if self.peek() == ":":  # `name` is an alias
            self.next()
            name = self.name("a field")
        if self.peek() == "(":
            self.skip_group()
        self.directives()
        if self.peek() == "{":
            self.skip_group()
        return name
