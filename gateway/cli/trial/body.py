"""What ``-d`` gives: a body, its type, and how to say the same in a snippet."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

FORM: Final = re.compile(r"[\w.%+~-]+=[^\s]*")


@dataclass(frozen=True, slots=True)
class Body:
    """`file`: where it was read from, so that a snippet reads it there again. `json` is what it means, if it is JSON."""

    content: bytes
    file: str | None = None

    @property
    def text(self) -> str | None:
        """None for what is not UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError:
            return None

    @property
    def json(self) -> Any:
        """Raises ValueError for what is no JSON."""
        return json.loads(self.content)

    @property
    def content_type(self) -> str:
        """As it looks, for a caller who says nothing about it."""
        try:
            self.json  # noqa: B018 - only whether it can be read
        except ValueError:
            text = self.text
        else:
            return "application/json"
        if text is None:
            return "application/octet-stream"
        return "application/x-www-form-urlencoded" if FORM.fullmatch(text) else "text/plain; charset=utf-8"


def read(given: str) -> Body:
    """As curl reads it: ``@file`` is that file, ``@-`` standard input. Raises BadParameter."""
    if not given.startswith("@"):
        return Body(given.encode())
    if given == "@-":
        return Body(sys.stdin.buffer.read())
    try:
        return Body(Path(given[1:]).read_bytes(), given[1:])
    except OSError as fault:
        raise click.BadParameter(f"{given[1:]} cannot be read: {fault.strerror}", param_hint="-d") from None
