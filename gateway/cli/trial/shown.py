"""What `gateway try` prints for people: the request as sent, the answer, the time it took, and the call as snippets."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli.trial import snippets, timing
from gateway.cli.trial.snippets import Sent
from gateway.wording import counted

LINES: Final = 40
COLUMNS: Final = 2000
_OURS: Final = ("gateway-", "server-timing", "x-request-id")


def heading(text: str) -> str:
    return click.style(text, bold=True)


def request(told: Mapping[str, Any], dry: bool) -> str:
    """The answer to a dry run."""
    lines = [
        heading("The request as it would be sent" if dry else "The request as sent to the provider"),
        f"  {told['method']} {told['url']}",
    ]
    lines += [f"  {name}: {value}" for name, value in told["headers"]]
    if told["body"] is not None:
        length = told["body"]["length_bytes"]
        body = "a body in chunks" if length is None else f"a body of {counted(length, 'byte')}"
        lines.append(f"  ({body})")
    return "\n".join(lines)


def head(status: int, reason: str, headers: Iterable[tuple[str, str]]) -> str:
    """The status, and the header fields, the gateway's own dimmed."""
    colour = "green" if status < 300 else "yellow" if status < 400 else "red"
    lines = [f"{heading('The answer')}  {click.style(f'{status} {reason}'.strip(), fg=colour, bold=True)}"]
    for name, value in headers:
        line = f"  {name}: {value}"
        lines.append(click.style(line, dim=True) if name.lower().startswith(_OURS) else line)
    return "\n".join(lines)


def body(content: bytes, content_type: str, *, everything: bool, whole: bool) -> str:
    """JSON indented, text as it is, cut with a note unless `everything`; of anything else its size."""
    if not content:
        return "  (no body)"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        if whole:
            size = f"{counted(len(content), 'byte')} of {content_type or 'unknown type'}"
            return f"  ({size}, not shown; the curl line below saves them with -o FILE)"
        text = content.decode("utf-8", "ignore")
    try:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        text = text.removesuffix("\n")
    text = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    lines = text.split("\n")
    if everything:
        return "\n".join(lines)
    shown = [line if len(line) <= COLUMNS else line[:COLUMNS] + " …" for line in lines[:LINES]]
    hidden = len(lines) - len(shown)
    if hidden or not whole:
        more = f"{hidden:,} more lines" if whole else "there is more"
        shown.append(click.style(f"… {more}; --all shows everything", fg="cyan"))
    elif any(len(line) > COLUMNS for line in lines):
        shown.append(click.style("… long lines are cut; --all shows everything", fg="cyan"))
    return "\n".join(shown)


def took(told: dict[str, float]) -> str:
    return "\n".join([heading("Where the time went"), *(f"  {line}" for line in timing.picture(told))])


def calls(sent: Sent, names: Sequence[str], key_file: Path | None) -> str:
    """The snippets called `names`, after how to set the variable that they read."""
    if key_file is not None:
        setting = f'export {snippets.VARIABLE}="$(cat {shlex.quote(str(key_file))})"'
    else:
        setting = f"export {snippets.VARIABLE}=…    # the environment's secret key"
    told = [f"{heading('The same call in your program')}\n\n{setting}"]
    for name in names:
        label, write = snippets.ALL[name]
        told.append(f"{click.style(f'# {label}' if name != 'curl' else '# curl', dim=True)}\n{write(sent)}")
    return "\n\n".join(told)
