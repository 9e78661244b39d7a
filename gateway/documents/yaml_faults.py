"""Turns an error of the YAML parser into a message that says how to fix the file.

A message never quotes the file, because the file can contain a secret.
"""

import re
from collections.abc import Callable
from typing import Final

import yaml

# Characters that look like a space. YAML reads them as text. Editors and web pages insert them.
_LOOKS_LIKE_SPACE: Final = re.compile("[ \t]*([\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff])")
_KEY_AND_COLON: Final = re.compile(r":(?:\s|$)")
_SAME_COLUMN: Final = "the keys of one mapping begin in the same column"


def yaml_fault(error: yaml.MarkedYAMLError, text: str, quote_over_lines: Callable[[int], int]) -> tuple[int, str]:
    """Return the line of the fault, from 1, and the message.

    `quote_over_lines` returns, for the line of the fault, the line of a quote that might not be closed; 0 if there is
    none.
    """
    lines = text.splitlines() or [""]
    mark = error.problem_mark or error.context_mark
    number = min(mark.line + 1, len(lines)) if mark else 1  # at the end of the file, the mark is after the last line
    column = mark.column if mark else 0
    opening_line = error.context_mark.line + 1 if error.context_mark else number
    problem = error.problem or ""

    if error.context == "while scanning a quoted scalar" and problem.startswith("found unexpected"):
        return opening_line, "not YAML: the quote that opens here is not closed"
    if lines[number - 1][max(0, column - 1) :].startswith("${"):  # YAML reads the brace as the start of a mapping
        return number, 'not YAML: quote ${…} inside [ ] and { }, as in ["${NAME}"]'
    if quote_line := quote_over_lines(number):
        hint = f"check the quote that opens in line {quote_line}"
        return number, f"not YAML: text after the end of a quoted value; {hint}"
    if "tab character" in problem or lines[number - 1][column : column + 1] == "\t":
        return number, "not YAML: a tab; indent with spaces, not tabs"
    for line_number in range(number, max(0, number - 2), -1):
        if unusual_space := _LOOKS_LIKE_SPACE.match(lines[line_number - 1]):
            code = f"U+{ord(unusual_space[1]):04X}"
            return line_number, f"not YAML: a character that only looks like a space ({code}); indent with spaces"
    if "mapping values" in problem:
        return _stray_colon(lines, number)
    if problem == "could not find expected ':'":
        return opening_line, f"not YAML: {_NOT_KEY_AND_VALUE}"
    if "',' or" in problem:
        bracket, closing_bracket = ("[", "]") if "]" in problem else ("{", "}")
        return (
            opening_line,
            f"not YAML: the {bracket} is not closed; write {closing_bracket}, or a comma between the values",
        )
    return number, f"not YAML: {_message(error, lines[number - 1], column)}"


_NOT_KEY_AND_VALUE: Final = "the line is not 'key: value'; write a colon and a space after the key"


def _stray_colon(lines: list[str], number: int) -> tuple[int, str]:
    """Return line and message for a key at a place where a mapping cannot begin."""
    line_above = next(
        (
            line_number
            for line_number in range(number - 1, 0, -1)
            if lines[line_number - 1].strip() and lines[line_number - 1].lstrip()[0] != "#"
        ),
        0,
    )
    text_above = lines[line_above - 1] if line_above else ""
    if line_above and not _KEY_AND_COLON.search(text_above) and not text_above.lstrip().startswith("- "):
        return line_above, f"not YAML: {_NOT_KEY_AND_VALUE}"
    if line_above and _indent(lines[number - 1]) > _indent(text_above) and not text_above.rstrip().endswith(":"):
        problem = f"the line is indented deeper than line {line_above}, which has a value already"
        return number, f"not YAML: {problem}; {_SAME_COLUMN}"
    return number, "not YAML: a second ': ' in one line; quote a value that contains ': '"


def _message(error: yaml.MarkedYAMLError, line: str, column: int) -> str:
    problem = error.problem or ""
    if problem == "did not find expected key" and column > _indent(line):
        return "text after the end of a quoted value; quote the whole value"
    if problem == "did not find expected key" and line.lstrip().startswith("-"):
        return "a list item among the keys of a mapping; indent the list deeper than its key"
    if problem == "did not find expected key":
        return f"the indentation matches no line above; {_SAME_COLUMN}"
    if problem == "did not find expected '-' indicator":
        return "a key among the items of a list; begin the line with '- ', or correct its indentation"
    if "<document start>" in problem:
        return f"text after the end of the document; check brackets, and the indentation: {_SAME_COLUMN}"
    if "start any token" in problem:
        return "a value cannot begin with this character; quote a value that begins with @, `, %, & or *"
    if "node content" in problem and "flow" in (error.context or ""):
        return "a value is missing between commas, or a [ or { is not closed"
    if "node content" in problem:
        return "a bracket or a comma at the beginning of a value; quote the value, or remove the character"
    if "escape character" in problem:
        return r"an unknown \ in double quotes; write \\, or use single quotes"
    context = f" ({error.context})" if error.context else ""
    return re.sub(r" ?'[^'\s]*\w[^'\s]*'", "", problem or "unreadable") + context  # without texts of the file


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
