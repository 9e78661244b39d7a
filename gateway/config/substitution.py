"""Fills in ``${NAME}``, ``${NAME:-default}`` and ``${file:path}`` in the texts of a parsed configuration.

Inserted values are not parsed again, so a secret can contain any character. ``$${`` is a literal ``${``. A name with a
dot, such as ``${connectionConfig.cloudId}``, stays unchanged, because it belongs to a template of the catalog.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.config.document import Finding
from gateway.documents.read_document import Place

MAX_FILE_BYTES: Final = 64 << 10
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)(\})?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_OR_DEFAULT: Final = re.compile(rf"({_NAME.pattern})(?::-(.*))?", re.DOTALL)
_TEMPLATE_NAME: Final = re.compile(rf"{_NAME.pattern}(?:\.[A-Za-z0-9_-]+)+")
_FORMS: Final = "write ${NAME}, ${NAME:-default} or ${file:path}, and $${ for a literal ${"


class UnresolvedReference(Exception):
    """A reference cannot be filled in. The message says why, and never contains a value."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """The sources of values. `environ`: the environment variables. `base`: the folder to which file paths are relative."""

    environ: Mapping[str, str]
    base: Path

    def fill(self, text: str) -> tuple[str | None, list[str]]:
        """Return `text` with every reference filled in, and the faults.

        Return None for the text ``${NAME:-}`` if the variable is unset or empty. The key then counts as absent.
        """
        faults: list[str] = []

        def replace_match(match: re.Match[str]) -> str:
            if match.group() == "$${":
                return "${"
            try:
                return self._resolve_reference(match)
            except UnresolvedReference as error:
                faults.append(str(error))
                return ""

        result = _REFERENCE.sub(replace_match, text)
        is_absent = not result and not faults and text.endswith(":-}") and text.count("${") == 1
        return (None if is_absent else result), faults

    def _resolve_reference(self, match: re.Match[str]) -> str:
        reference, closing_brace = match.groups()
        if not closing_brace:
            raise UnresolvedReference("a '${' without its '}'; " + _FORMS)
        if reference.startswith("file:"):
            return self._file(reference.removeprefix("file:"))
        if _TEMPLATE_NAME.fullmatch(reference):
            return match.group()
        variable = _NAME_OR_DEFAULT.fullmatch(reference)
        if variable is None:
            raise UnresolvedReference("a ${…} of no known form; " + _FORMS)
        name, default = variable.groups()
        if default is not None and "${" in default:
            raise UnresolvedReference(f"the default of ${{{name}}} contains another ${{…}}, which is not filled in")
        return self._variable(name, default)

    def _variable(self, name: str, default: str | None) -> str:
        value = self.environ.get(name)
        if default is not None:
            value = value or default
        if value is None:
            raise UnresolvedReference(
                f"${{{name}}} is not set in the environment; export {name}, or write ${{{name}:-default}}"
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnresolvedReference(f"${{{name}}} is not UTF-8 in the environment") from None
        return value

    def _file(self, name: str) -> str:
        """Return the text of the file without its final newline. Raises UnresolvedReference."""
        reference = f"${{file:{name}}}"
        if not name or "\0" in name:
            raise UnresolvedReference(f"{reference!r} names no file; " + _FORMS)
        try:
            with (self.base / name).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnresolvedReference(f"{reference} cannot be read at {self.base / name}: {error.strerror}") from None
        if len(content) > MAX_FILE_BYTES:
            raise UnresolvedReference(
                f"{reference} contains more than {MAX_FILE_BYTES >> 10} KiB, more than any setting needs"
            )
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise UnresolvedReference(f"{reference} is not UTF-8 text; for a binary key, write its base64") from None
        return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def substitute(tree: Any, substitution: Substitution) -> tuple[Any, list[Finding], dict[Place, str]]:
    """Fill in all references in `tree`. Return the result, the faults, and the reference at each filled-in place."""
    findings: list[Finding] = []
    origins: dict[Place, str] = {}

    def walk(value: Any, place: Place) -> Any:
        if isinstance(value, dict):
            return {key: walk(member, (*place, key)) for key, member in value.items()}
        if isinstance(value, list):
            return [walk(member, (*place, str(index))) for index, member in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        filled_text, faults = substitution.fill(value)
        findings.extend(Finding(place, message) for message in faults)
        if reference := _REFERENCE.search(value):
            origins[place] = reference.group()
        return filled_text

    return walk(tree, ()), findings, origins
