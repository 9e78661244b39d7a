"""Evaluates JMESPath expressions (https://jmespath.org) on a provider's response, if their cost is bounded.

Each step of an expression can double the size of its result. The maximum growth is computed from the expression before
it runs, so an expression that could fill the memory is refused.
"""

import json
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult, Parser

MAX_GROWTH: Final = 64
MAX_WORK: Final = 2_000_000  # growth × values of the document: at most 1 s of one thread and about 100 MiB
MAX_STEPS: Final = 10_000_000  # steps × values of the document: at most 15 s of one thread
MAX_NODES: Final = 256  # maximum steps of an expression for one value
INLINE_STEPS: Final = 20_000  # maximum steps on the event loop: 30 ms
BYTES_A_VALUE: Final = 64  # a long text counts as one value for every 64 bytes, since it is copied
# maximum values of a response that is parsed as JSON: an empty list takes 2 bytes in JSON, and 64 in memory
MOST_VALUES: Final = 1_000_000
_ADDING: Final = frozenset({"multi_select_list", "multi_select_dict", "or_expression", "and_expression"})
_CHAINED: Final = frozenset(  # each child gets the result of the child before
    {"pipe", "subexpression", "index_expression", "projection", "value_projection", "filter_projection"}
)
_SINGLE_RESULT: Final = frozenset({"comparator", "not_expression"})
TO_STRING_GROWTH: Final = 4  # a nested call of to_string escapes the escapes of the inner call again


class UnusableExpression(ValueError):
    """The expression cannot be parsed, costs too much, or does not fit the response; the message says which."""


def parse_expression(expression: str) -> ParsedResult:
    """Parse a JMESPath expression. Raises UnusableExpression if it is invalid or too expensive."""
    try:
        parsed = Parser().parse(expression)
        size, step_count = growth(parsed.parsed), steps(parsed.parsed)
    except UnusableExpression:
        raise
    except (JMESPathError, RecursionError, ValueError) as fault:
        raise UnusableExpression(
            f"'select' is not a JMESPath expression: {str(fault).splitlines()[0][:200]}"
        ) from fault
    if size > MAX_GROWTH:
        raise UnusableExpression("'select' repeats what it selects too often; select fewer members, or in fewer steps.")
    if step_count > MAX_NODES:
        raise UnusableExpression("'select' has too many steps; select in fewer of them.")
    return parsed


def growth(node: dict[str, Any]) -> int:
    """Return the maximum size of this node's results, intermediate ones included, as a multiple of its input.

    Raises UnusableExpression for a `join` with a separator that comes from the response.
    """
    kind, children = node["type"], _child_nodes(node)
    inner = [growth(child) for child in children]
    if kind == "literal":
        return max(1, len(json.dumps(node["value"])))
    if kind in _SINGLE_RESULT:  # the result is a single value, but both sides are evaluated; literals are not copied
        return max(1, *(size for size, child in zip(inner, children, strict=True) if child["type"] != "literal"), 1)
    if kind in _ADDING:
        return max(1, sum(inner))
    product = 1
    if kind == "function_expression" and node["value"] == "to_string":
        product = TO_STRING_GROWTH
    if kind == "function_expression" and node["value"] == "join" and children and children[0]["type"] != "literal":
        raise UnusableExpression("In 'select', join takes a text in quotes first, as in join(', ', names).")
    for size in inner:
        product = min(product * size, MAX_GROWTH + 1)
    return product


def steps(node: dict[str, Any]) -> int:
    """Return the maximum number of nodes that are evaluated for each value of the input."""
    children = _child_nodes(node)
    total = current_growth = 1
    if node["type"] == "function_expression":  # an &expression is evaluated for each value of the other arguments
        children = sorted(children, key=lambda child: child["type"] == "expref")
    elif node["type"] not in _CHAINED:
        return 1 + sum(map(steps, children))
    for child in children:
        total += current_growth * steps(child)
        current_growth = min(current_growth * growth(child), MAX_GROWTH)
    return total


def _child_nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the child nodes; a slice has none, only numbers."""
    return [] if node["type"] == "slice" else node["children"]


def values_in(body: bytes) -> int:
    """Return an upper bound for the number of values in a JSON text; long texts count as several."""
    return max(1 + sum(map(body.count, (b",", b":", b"[", b"{"))), len(body) // BYTES_A_VALUE)


def is_quick(expression: ParsedResult, body: bytes) -> bool:
    """Return whether selecting from `body` is quick enough for the event loop."""
    return steps(expression.parsed) * values_in(body) <= INLINE_STEPS


def evaluate(expression: ParsedResult, document: Any, values: int) -> Any:
    """Evaluate the expression. `values`: the document's value count by `values_in`. Raises UnusableExpression."""
    if growth(expression.parsed) * values > MAX_WORK or steps(expression.parsed) * values > MAX_STEPS:
        raise UnusableExpression("The response is too large for this 'select'; request less of it from the provider.")
    try:
        return expression.search(document, options=jmespath.Options(dict_cls=dict))
    except (JMESPathError, RecursionError, ValueError, TypeError, ArithmeticError) as fault:
        raise UnusableExpression(f"'select' does not fit this response: {str(fault).splitlines()[0][:200]}") from fault
