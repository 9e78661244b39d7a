"""An inventory: every regular expression of the gateway takes linear time, up to the size limit of its input.

It finds every pattern of `gateway` and `middleware`: compiled patterns by import, others by their call in the source.
It runs each one on inputs derived from its structure: the shortest path to each repetition, the repeated part many
times, and an end that does not match. `LIMITS` says how long an input may be where the pattern is used.
"""

import ast
import importlib
import pkgutil
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

import pytest

import gateway
from gateway.catalog.value import MAX_LENGTH
from gateway.integrations.declared import catalog_of
from tests.fakes.scaling import cpu_s, linear_fault, reference_s

ROOT: Final = Path(__file__).parents[2]

OPERATOR: Final = 256
"""What the operator writes: configuration, catalog entries, commands. Patterns need not be linear, only cheap at this
length.
"""
CHEAP: Final = 1000  # times the reference
HEAD: Final = 64 * 1024  # all fields of a message together
FIELD: Final = 16 * 1024  # one line of a request
BODY: Final = 1 << 20
NAME: Final = 1024  # a value whose length is checked first

LIMITS: Final[Mapping[str, int]] = {
    # Module or package ▸ maximum length of the texts that its patterns get, in characters. The longest matching name
    # counts.
    "gateway.access": FIELD,  # rules are matched with a request's path
    "gateway.api": FIELD,
    "gateway.api.shapes": BODY,  # checks a tag key and a URL before any other check
    "gateway.api.connection_json": NAME,
    "gateway.auth": HEAD,  # fields of providers' responses, and credentials of up to 16 KiB
    "gateway.catalog": OPERATOR,
    "gateway.catalog.value": 8192,
    "gateway.catalog.render": HEAD,
    "gateway.catalog.pagination": FIELD,
    "gateway.timestamps": FIELD,
    "gateway.cli": OPERATOR,
    "gateway.client": OPERATOR,  # runs in the application, on URLs that the application writes
    "gateway.config": OPERATOR,
    "gateway.connections.opened": OPERATOR,  # the base URL of a catalog entry
    "gateway.http.url": FIELD,
    "gateway.observe": HEAD,
    "gateway.observe.masking.SECRET_NAME": OPERATOR,  # longer names are masked without matching
    "gateway.integrations": HEAD,  # a client id or secret, also of an integration made through the API
    "gateway.mcp": BODY,
    "gateway.moving": OPERATOR,  # files and bundles that the operator imports
    "gateway.oauth": 256 * 1024,
    "gateway.openapi": OPERATOR,
    "gateway.pages": NAME,
    "gateway.records.connection": HEAD,  # ids in a request's headers
    "gateway.sandbox": OPERATOR,  # a provider for tests only
    "gateway.authoring": OPERATOR,
    "gateway.documents": OPERATOR,
    "gateway.scripts": HEAD,
    "gateway.server": HEAD,
    "gateway.http": HEAD,
    "gateway.origin": HEAD,
    "gateway.http.body_members": BODY,
    "gateway.http.json_scan": BODY,
    "gateway.events.webhook_keys": FIELD,
    "gateway.http.paging.list_body": 64 * 1024,  # the limit of `proxy.posted_list`
    "gateway.http.paging.page_document": BODY,
    "gateway.middleware": FIELD,
}

MADE_OF_PARTS: Final = frozenset(
    {
        "gateway.access.body_rules.compile",  # from a key's rule; a name has few `*`, separated by texts
        "gateway.access.key_rule.__init__",  # from a key's rule; tested in tests/gateway/access/test_key_rule.py
        "gateway.auth.aws_sigv4._element",  # from five fixed names, and [^<]*
        "gateway.catalog.value.compile_pattern",  # from catalog entries; the shipped ones are tested below
        # from an entry under conversion, to check whether it compiles
        "gateway.authoring.conversion.convert._convert_pattern",
        "gateway.catalog.pagination.applies_to_path",  # from a catalog entry's path
        "gateway.authoring.rehearsal.stage.path_pattern",  # from a catalog entry's path, in a test of entries
    }
)
HANDED_ON: Final = {
    # Patterns that are used under another name.
    "gateway.http.proxy_options._SECONDS": frozenset({"fullmatch"}),
    "gateway.http.chunks._SIZE": frozenset({"fullmatch"}),
    "gateway.http.chunks._REQUEST_SIZE": frozenset({"fullmatch"}),
}
METHODS: Final = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


@dataclass(frozen=True)
class UsedPattern:
    """A pattern and its use: `where` names it, `methods` are the methods called on it."""

    where: str
    pattern: str | bytes
    flags: int
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.where}: {self.pattern!r}"[:90]


def modules() -> Iterator[str]:
    yield gateway.__name__
    for found in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if not found.name.endswith(("__main__", "migrations.env")):  # these modules run when they are imported
            yield found.name


def calls_in(tree: ast.AST) -> Iterator[tuple[ast.expr, str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.value, node.func.attr, node


CALL: Final = re.compile(rf"\bre\.compile\(|\.(?:{'|'.join(METHODS)})\(")


@cache
def sources() -> Mapping[str, ast.Module]:
    """Return the modules that compile a pattern, or call a method that a pattern has."""
    found = {}
    for folder in (ROOT / "gateway", ROOT / "gateway" / "middleware"):  # a link, which rglob does not follow
        for path in folder.rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            source = path.read_text()
            if CALL.search(source):
                found[name] = ast.parse(source)
    return found


@cache
def calls() -> Mapping[str, tuple[tuple[ast.expr, str, ast.Call], ...]]:
    """Return the calls of methods in each module: what the method is read from, its name, and the call."""
    return {name: tuple(calls_in(tree)) for name, tree in sources().items()}


@cache
def methods_of() -> Mapping[str, frozenset[str]]:
    """Return the methods that are called on each pattern, by variable (with its module if it is called there)."""
    called: dict[str, set[str]] = {}
    for module, called_here in calls().items():
        for value, attribute, _ in called_here:
            if attribute in METHODS:
                for part in ast.walk(value):  # also in ``(A if … else B).match``
                    if isinstance(part, ast.Name):
                        called.setdefault(part.id, set()).add(attribute)
                        called.setdefault(f"{module}.{part.id}", set()).add(attribute)
    return {name: frozenset(methods) for name, methods in called.items()}


def assigned_names(module: ast.Module) -> set[str]:
    targets = [
        target
        for node in module.body
        for target in (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def made_of_parts() -> Iterator[str]:
    """Yield where a pattern is composed in a call, so that its text is not known here."""
    for name, tree in sources().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for value, attribute, call in calls_in(function):
                    of_re = isinstance(value, ast.Name) and value.id == "re" and attribute in (*METHODS, "compile")
                    if of_re and not isinstance(call.args[0], ast.Constant):
                        yield f"{name}.{function.name}"


def patterns_of_modules() -> Iterator[UsedPattern]:
    """Yield patterns that are members of modules."""
    for name in modules():
        for variable, value in vars(importlib.import_module(name)).items():
            # skips patterns that the module only imports
            if isinstance(value, re.Pattern) and name in sources() and variable in assigned_names(sources()[name]):
                where = f"{name}.{variable}"
                methods = HANDED_ON.get(where) or methods_of().get(where) or methods_of().get(variable)
                methods = methods or frozenset({"match", "search"})
                yield UsedPattern(where, value.pattern, value.flags, methods)


def literal_patterns() -> Iterator[UsedPattern]:
    """Yield patterns that are literals of a call such as ``re.sub("…", …)``."""
    for name, tree in sources().items():
        for value, attribute, call in calls()[name]:
            if not (
                isinstance(value, ast.Name) and value.id == "re" and attribute in (*METHODS, "compile") and call.args
            ):
                continue
            pattern = call.args[0]
            if isinstance(pattern, ast.Constant) and call not in variable_values(tree):
                methods = frozenset({attribute}) if attribute != "compile" else frozenset({"match", "search"})
                flags = sum(getattr(re, part.attr) for key in call.keywords if key.arg == "flags" for part in ast.walk(key.value)
                            if isinstance(part, ast.Attribute) and hasattr(re, part.attr))  # fmt: skip
                yield UsedPattern(f"{name}:{call.lineno}", pattern.value, flags, methods)


def variable_values(tree: ast.Module) -> list[ast.AST]:
    """Return the values of the module's variables, whose patterns `patterns_of_modules` yields."""
    return [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]


def patterns_of_catalog() -> Iterator[UsedPattern]:
    """Yield patterns of settings in the shipped entries, which are matched with end users' values."""
    for provider in catalog_of(None).providers.values():
        for settings in (provider.connection_config, provider.credentials):
            for setting in settings.values():
                if setting.pattern is not None:
                    yield UsedPattern(f"catalog/{provider.name}", setting.pattern, re.ASCII, frozenset({"fullmatch"}))


def limit_of(where: str) -> int:
    if where.startswith("catalog/"):
        return MAX_LENGTH
    fitting = [part for part in LIMITS if where == part or where.startswith((f"{part}.", f"{part}:"))]
    assert fitting, f"LIMITS does not say how long an input {where} may get"
    return LIMITS[max(fitting, key=len)]


@cache
def inventory() -> tuple[UsedPattern, ...]:
    return (*patterns_of_modules(), *literal_patterns(), *patterns_of_catalog())


def unique_patterns() -> list[UsedPattern]:
    found: dict[tuple[str | bytes, int, frozenset[str], int], UsedPattern] = {}
    for pattern in inventory():
        found.setdefault(
            (pattern.pattern, pattern.flags & ~re.UNICODE, pattern.methods, limit_of(pattern.where)), pattern
        )
    return list(found.values())


# --- inputs from a pattern's own structure


def sample(nodes: Any, pick: int = 0) -> str:
    """Return a short text that matches the parsed nodes, ignoring lookarounds and references."""
    return "".join(sample_node(operator, value, pick) for operator, value in nodes)


def sample_node(operator: Any, value: Any, pick: int) -> str:
    if operator is sre.LITERAL:
        return chr(value)
    if operator is sre.NOT_LITERAL:
        return next(char for char in "a.0 " if ord(char) != value)
    if operator is sre.ANY:
        return "a"
    if operator is sre.IN:
        return member(value, pick)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, most, inner = value
        return sample(inner, pick) * (least or (1 if pick and most else 0))
    if operator is sre.SUBPATTERN:
        return sample(value[-1], pick)
    if operator is sre.ATOMIC_GROUP:
        return sample(value, pick)
    if operator is sre.BRANCH:
        return sample(value[1][pick % len(value[1])], pick)
    return ""


ALPHABET: Final = string.ascii_letters + string.digits + " .,;:-_/=\"'<>@%&?#\\{}[]()+*~|!$^`\t\n\u00e9"


def member(items: Any, pick: int) -> str:
    compiled = [char for char in ALPHABET if contains(items, char)]
    return compiled[(pick * 7) % len(compiled)] if compiled else ""


def contains(items: Any, char: str) -> bool:
    negated = bool(items) and items[0][0] is sre.NEGATE
    hit = False
    for operator, value in items:
        if operator is sre.LITERAL:
            hit = hit or ord(char) == value
        elif operator is sre.RANGE:
            hit = hit or value[0] <= ord(char) <= value[1]
        elif operator is sre.CATEGORY:
            hit = hit or in_category(value, char)
    return hit is not negated


def in_category(category: Any, char: str) -> bool:
    name = str(category)
    positive = (
        char.isdigit() if "DIGIT" in name else char.isspace() if "SPACE" in name else char.isalnum() or char == "_"
    )
    return positive is not ("NOT" in name)


def repeats(nodes: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield, for each repetition, the text that leads to it, and one repetition."""
    for operator, value in nodes:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _, most, inner = value
            if most > 8:
                for pick in range(4):
                    yield before, sample(inner, pick) or "a"
            yield from repeats(inner, before)
        elif operator is sre.SUBPATTERN:
            yield from repeats(value[-1], before)
        elif operator is sre.ATOMIC_GROUP:
            yield from repeats(value, before)
        elif operator is sre.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, before)
        before += sample_node(operator, value, 0)


def attacks(pattern: str | bytes, flags: int) -> set[tuple[str, str, str]]:
    """Return (beginning, repeated part, end) of each attack."""
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    found = {(before, pump, end) for before, pump in repeats(tree, "") for end in ("", "\x00", "!", " ")}
    literals = set(sample(tree, 0) + sample(tree, 1)) or {"a"}
    alone = {("", char, end) for char in (*sorted(literals)[:12], "a", " ", '"', "<", ".") for end in ("", "\x00")}
    # each repetition starts again from the beginning
    without_prefix = {("", before + pump, end) for before, pump, end in found if before}
    return found | alone | without_prefix


def runner(compiled: "re.Pattern[Any]", method: str) -> Callable[[Any], object]:
    if method in ("sub", "subn"):
        return lambda text: getattr(compiled, method)(lambda found: found[0], text)
    if method == "finditer":
        return lambda text: sum(1 for _ in compiled.finditer(text))
    called: Callable[[Any], object] = getattr(compiled, method)
    return called


def assert_used_linearly(used: UsedPattern, limit: int) -> None:
    compiled = re.compile(used.pattern, used.flags)
    for before, pump, end in sorted(attacks(used.pattern, used.flags)):
        for method in sorted(used.methods):
            run = runner(compiled, method)

            def work(
                size: int, run: Callable[[Any], object] = run, parts: Any = (before, pump, end)
            ) -> Callable[[], object]:
                text: Any = parts[0] + parts[1] * max(1, (size - len(parts[0]) - 1) // len(parts[1])) + parts[2]
                given = text.encode("latin-1", "replace") if isinstance(used.pattern, bytes) else text
                return lambda: run(given)

            try:
                if limit <= OPERATOR:
                    most = CHEAP * reference_s(limit)
                    cheap = cpu_s(work(limit), times=1) <= most or cpu_s(work(limit)) <= most
                    assert cheap, f"a match of {limit} characters takes too long"
                else:
                    assert linear_fault(work, limit) == ""
            except AssertionError as fault:
                raise AssertionError(f"{used} by {method} on {before!r} + {pump!r}… + {end!r}: {fault}") from None


@pytest.mark.heavy
def test_every_pattern_costs_time_in_proportion_to_its_input() -> None:
    faults = []
    for used in unique_patterns():
        try:
            assert_used_linearly(used, limit_of(used.where))
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)


def test_a_pattern_built_in_the_call_of_compile_is_found() -> None:
    assert set(made_of_parts()) == MADE_OF_PARTS


def test_inventory_finds_all_patterns() -> None:
    places = {used.where for used in inventory()}
    for known in (
        "gateway.api.shapes.EMAIL_FORM",
        "gateway.http.references._PIECE",
        "gateway.observe.masking.SECRET_TEXT",
        "gateway.middleware.who_calls._MINTED_KEY",
    ):
        assert known in places
    assert any(where.startswith("gateway.auth.aws_sigv4:") for where in places)
    assert any(where.startswith("catalog/") for where in places)


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        (r"[^@\s]+@[^@\s]+\.[^@\s]+", 8192),
        (r'"(?:[^"\\]|\\.)*"|<([^>]*)>', 8192),
        (r"[\w-]*(?:secret|token)=", 8192),
        (r"(a+)+b", 22),  # exponential
        (r"a*a*b", 1000),  # cubic in a search: minutes for longer inputs
    ],
)
def test_the_inventory_catches_patterns_that_are_not_linear(pattern: str, limit: int) -> None:
    used = UsedPattern("gateway.http.example", pattern, 0, frozenset({"fullmatch", "search"}))
    with pytest.raises(AssertionError, match=r"characters (cost|takes too long)"):
        assert_used_linearly(used, limit)
