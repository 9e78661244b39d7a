"""JMESPath (https://jmespath.org) on a provider's response, with a cost that is computed before it runs.

An expression can double its input, and double it again with each step. The maximum growth is computed from the
expression, so an expression that could fill the memory is refused before it runs.
"""

import json
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult, Parser

MOST_GROWTH: Final = 64
MOST_WORK: Final = 2_000_000  # growth × values of the document: at most 1 s of one thread and about 100 MiB
MOST_STEPS: Final = 10_000_000  # steps × values of the document: at most 15 s of one thread
MOST_NODES: Final = 256  # maximum steps of an expression for one value
INLINE_STEPS: Final = 20_000  # maximum steps on the event loop: 30 ms
BYTES_A_VALUE: Final = 64  # a long text counts as one value for every 64 bytes, since it is copied
# maximum values of a response that is parsed as JSON: an empty list takes 2 bytes in JSON, and 64 in memory
MOST_VALUES: Final = 1_000_000
_SUMS: Final = frozenset({"multi_select_list", "multi_select_dict", "or_expression", "and_expression"})
_IN_TURN: Final = frozenset(  # each child gets the result of the child before
    {"pipe", "subexpression", "index_expression", "projection", "value_projection", "filter_projection"}
)
_PLAIN: Final = frozenset({"comparator", "not_expression"})
TO_STRING: Final = 4  # nested calls of to_string escape again what the inner call has escaped


class UnfitExpression(ValueError):
    """The expression cannot be parsed, costs too much, or does not fit the response; the message says which."""


def parsed(expression: str) -> ParsedResult:
    """Parse a JMESPath expression. Raises UnfitExpression if it is invalid or too expensive."""
    try:
        found = Parser().parse(expression)
        size, step_count = growth(found.parsed), steps(found.parsed)
    except UnfitExpression:
        raise
    except (JMESPathError, RecursionError, ValueError) as fault:
        raise UnfitExpression(f"'select' is not a JMESPath expression: {str(fault).splitlines()[0][:200]}") from fault
    if size > MOST_GROWTH:
        raise UnfitExpression("'select' repeats what it selects too often; select fewer members, or in fewer steps.")
    if step_count > MOST_NODES:
        raise UnfitExpression("'select' has too many steps; select in fewer of them.")
    return found


def growth(node: dict[str, Any]) -> int:
    """Return the maximum size of this node's results, intermediate ones included, as a multiple of its input.

    Raises UnfitExpression for a `join` with a separator that comes from the response.
    """
    kind, children = node["type"], _inner(node)
    inner = [growth(child) for child in children]
    if kind == "literal":
        return max(1, len(json.dumps(node["value"])))
    if kind in _PLAIN:  # the result is one value, but both sides are evaluated; a literal exists only once
        return max(1, *(size for size, child in zip(inner, children, strict=True) if child["type"] != "literal"), 1)
    if kind in _SUMS:
        return max(1, sum(inner))
    product = 1
    if kind == "function_expression" and node["value"] == "to_string":
        product = TO_STRING
    if kind == "function_expression" and node["value"] == "join" and children and children[0]["type"] != "literal":
        raise UnfitExpression("In 'select', join takes a text in quotes first, as in join(', ', names).")
    for size in inner:
        product = min(product * size, MOST_GROWTH + 1)
    return product


def steps(node: dict[str, Any]) -> int:
    """Return the maximum number of nodes that are evaluated for each value of the input."""
    children = _inner(node)
    total = grown = 1
    if node["type"] == "function_expression":  # an &expression is evaluated for each value of the other arguments
        children = sorted(children, key=lambda child: child["type"] == "expref")
    elif node["type"] not in _IN_TURN:
        return 1 + sum(map(steps, children))
    for child in children:
        total += grown * steps(child)
        grown = min(grown * growth(child), MOST_GROWTH)
    return total


def _inner(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the child nodes; a slice has none, only numbers."""
    return [] if node["type"] == "slice" else node["children"]


def values_in(body: bytes) -> int:
    """Return an upper bound for the number of values in a JSON text; long texts count as several."""
    return max(1 + sum(map(body.count, (b",", b":", b"[", b"{"))), len(body) // BYTES_A_VALUE)


def is_quick(expression: ParsedResult, body: bytes) -> bool:
    """Return whether selecting from `body` is quick enough for the event loop."""
    return steps(expression.parsed) * values_in(body) <= INLINE_STEPS


def selected(expression: ParsedResult, document: Any, values: int) -> Any:
    """Evaluate the expression. `values`: the document's value count by `values_in`. Raises UnfitExpression."""
    if growth(expression.parsed) * values > MOST_WORK or steps(expression.parsed) * values > MOST_STEPS:
        raise UnfitExpression("The response is too large for this 'select'; request less of it from the provider.")
    try:
        return expression.search(document, options=jmespath.Options(dict_cls=dict))
    except (JMESPathError, RecursionError, ValueError, TypeError, ArithmeticError) as fault:
        raise UnfitExpression(f"'select' does not fit this response: {str(fault).splitlines()[0][:200]}") from fault
