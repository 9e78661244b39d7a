"""Evaluates JMESPath expressions (https://jmespath.org) on a provider's response, within a maximum cost.

Each step of an expression can double the size of the result. Before an expression runs, the maximum growth is computed,
and an expression that could fill the memory is refused.
"""

import json
from typing import Any, Final

import jmespath
from jmespath.exceptions import IncompleteExpressionError, JMESPathError, LexerError, ParseError
from jmespath.parser import ParsedResult, Parser

MAX_GROWTH: Final = 64
MAX_WORK: Final = 2_000_000  # maximum of growth × values of the document: 1 s of one thread and about 100 MiB
MAX_STEPS: Final = 10_000_000  # maximum of steps × values of the document: 15 s of one thread
MAX_NODES: Final = 256  # maximum steps of an expression for each value
INLINE_STEPS: Final = 20_000  # maximum of steps × values on the event loop: 30 ms
BYTES_A_VALUE: Final = 64  # a long text counts as one value for each 64 bytes, because it is copied
# Maximum values of a response that is parsed as JSON. The limit is needed because an empty list takes 2 bytes in JSON,
# but 64 bytes in memory.
MAX_VALUES: Final = 1_000_000
_ADDING: Final = frozenset({"multi_select_list", "multi_select_dict", "or_expression", "and_expression"})
_CHAINED: Final = frozenset(  # each child gets the result of the previous child
    {"pipe", "subexpression", "index_expression", "projection", "value_projection", "filter_projection"}
)
_SINGLE_RESULT: Final = frozenset({"comparator", "not_expression"})
EXAMPLE: Final = "issues[].{key: key, state: fields.status.name}"
TO_STRING_GROWTH: Final = 4  # each nested call of to_string escapes the backslashes of the inner call again


class UnusableExpression(ValueError):
    """The expression cannot be parsed, costs too much, or does not fit the response. The message gives the reason."""


def parse_expression(expression: str, name: str = "'select'") -> ParsedResult:
    """Parse a JMESPath expression. `name`: the field in which the caller sent the expression, for error messages.

    Raises UnusableExpression if the expression is invalid or too expensive.
    """
    try:
        parsed_expression = Parser().parse(expression)
        size, step_count = growth(parsed_expression.parsed), steps(parsed_expression.parsed)
    except UnusableExpression:
        raise
    except (JMESPathError, RecursionError, ValueError) as fault:
        raise UnusableExpression(
            f"{name} is not a JMESPath expression: {_syntax_fault(fault)}. For example: {EXAMPLE}"
        ) from fault
    if size > MAX_GROWTH:
        raise UnusableExpression(f"{name} repeats what it selects too often; select fewer members, or in fewer steps.")
    if step_count > MAX_NODES:
        raise UnusableExpression(f"{name} has too many steps; select in fewer of them.")
    return parsed_expression


def _syntax_fault(fault: Exception) -> str:
    """Return why an expression cannot be parsed, and at which column, in one line."""
    match fault:
        case IncompleteExpressionError() | ParseError(token_value=""):
            return "it ends too early"
        case LexerError():
            return f"{fault.message[:1].lower()}{fault.message[1:160]}, at column {fault.lexer_position}"
        case ParseError(token_value=str(token)):
            return f"unexpected '{token[:160]}' at column {fault.lex_position}"
    reason = (str(fault).splitlines() or [""])[0][:200].rstrip(".: ")
    return reason[:1].lower() + reason[1:]


def growth(node: dict[str, Any]) -> int:
    """Return the maximum size of this node's results, with intermediate results, as a multiple of its input.

    Raises UnusableExpression for a `join` with a separator that comes from the response.
    """
    return _growth_and_steps(node)[0]


def steps(node: dict[str, Any]) -> int:
    """Return the maximum number of nodes that are evaluated for each value of the input.

    Raises UnusableExpression like `growth`.
    """
    return _growth_and_steps(node)[1]


def _growth_and_steps(node: dict[str, Any]) -> tuple[int, int]:
    """Return both numbers in one pass, because each depends on those of the child nodes."""
    children = _child_nodes(node)
    child_costs = [_growth_and_steps(child) for child in children]
    return _growth(node, [size for size, _ in child_costs]), _steps(node, child_costs)


def _growth(node: dict[str, Any], child_sizes: list[int]) -> int:
    kind, children = node["type"], _child_nodes(node)
    if kind == "literal":
        return max(1, len(json.dumps(node["value"])))
    if kind in _SINGLE_RESULT:  # the result is one value, but both operands are evaluated; literals are not copied
        return max(
            1, *(size for size, child in zip(child_sizes, children, strict=True) if child["type"] != "literal"), 1
        )
    if kind in _ADDING:
        return max(1, sum(child_sizes))
    product = 1
    if kind == "function_expression" and node["value"] == "to_string":
        product = TO_STRING_GROWTH
    if kind == "function_expression" and node["value"] == "join" and children and children[0]["type"] != "literal":
        raise UnusableExpression("The first argument of join must be text in quotes, as in join(', ', names).")
    for size in child_sizes:
        product = min(product * size, MAX_GROWTH + 1)
    return product


def _steps(node: dict[str, Any], child_costs: list[tuple[int, int]]) -> int:
    total = current_growth = 1
    if node["type"] == "function_expression":  # an &expression runs for each value of the other arguments
        child_types = [child["type"] for child in _child_nodes(node)]
        typed_costs = list(zip(child_types, child_costs, strict=True))
        child_costs = [cost for child_type, cost in typed_costs if child_type != "expref"]
        child_costs += [cost for child_type, cost in typed_costs if child_type == "expref"]
    elif node["type"] not in _CHAINED:
        return 1 + sum(step_count for _, step_count in child_costs)
    for size, step_count in child_costs:
        total += current_growth * step_count
        current_growth = min(current_growth * size, MAX_GROWTH)
    return total


def _child_nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the child nodes. A slice has numbers in place of child nodes."""
    return [] if node["type"] == "slice" else node["children"]


def values_in(body: bytes) -> int:
    """Return an upper bound for the number of values in a JSON text. A long text counts as several values."""
    return max(1 + sum(map(body.count, (b",", b":", b"[", b"{"))), len(body) // BYTES_A_VALUE)


def is_quick(expression: ParsedResult, body: bytes) -> bool:
    """Return whether the expression takes so little time for `body` that the event loop can run it."""
    return steps(expression.parsed) * values_in(body) <= INLINE_STEPS


def evaluate(expression: ParsedResult, document: Any, values: int) -> Any:
    """Evaluate the expression on `document`. Raises UnusableExpression.

    `values`: the result of `values_in` for the document.
    """
    if growth(expression.parsed) * values > MAX_WORK or steps(expression.parsed) * values > MAX_STEPS:
        raise UnusableExpression("The response is too large for this 'select'; request less of it from the provider.")
    try:
        return expression.search(document, options=jmespath.Options(dict_cls=dict))
    except (JMESPathError, RecursionError, ValueError, TypeError, ArithmeticError) as fault:
        raise UnusableExpression(f"'select' does not fit this response: {str(fault).splitlines()[0][:200]}") from fault
