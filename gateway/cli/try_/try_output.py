"""Formats the request, the response and the timing for people."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli.terminal import without_control_characters
from gateway.cli.try_ import try_snippets
from gateway.cli.try_.try_snippets import SentCall
from gateway.text import counted

# ── The timing of a call, as numbers and as a bar chart. The times come from ``Server-Timing`` and from this machine's
# clock.

WIDTH: Final = 40
# Matches a metric of ``Server-Timing`` with its duration (W3C Server Timing, §4).
_METRIC: Final = re.compile(r"\s*([!#$%&'*+.^_`|~\w-]+)\s*;[^,]*?\bdur=\"?([0-9.]+)")
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
# Names in ``Server-Timing``, each with the label that is shown.
PARTS: Final = {"gateway": "gateway", "token": "token", "upstream": "provider"}


def timing_parts(fields: Iterable[str], total_ms: float) -> dict[str, float]:
    """Return the milliseconds of ``gateway``, ``token``, ``upstream``, ``transfer`` (the rest) and ``total``.

    If several fields have the same name, the last field is used, because the gateway's field follows a provider's
    field.
    """
    durations: dict[str, float] = {}
    for field in fields:
        for match in _METRIC.finditer(field):
            if match[1] in PARTS and match[2].count(".") <= 1:
                durations[match[1]] = float(match[2])
    rest_ms = max(0.0, total_ms - sum(durations.values()))
    return {**durations, "transfer": round(rest_ms, 2), "total": round(total_ms, 2)}


def timing_chart(durations: dict[str, float]) -> Sequence[str]:
    """Return a line with a bar for each part. Each bar starts where the previous bar ends."""
    total = max(durations["total"], sum(ms for name, ms in durations.items() if name != "total"), 1e-9)
    lines, start = [], 0.0
    for name, ms in durations.items():
        if name == "total":
            continue
        label = PARTS.get(name, name)
        lines.append(f"{label:<9}{ms:>9.1f} ms  {bar(start / total, ms / total)}".rstrip())
        start += ms
    return [*lines, f"{'total':<9}{durations['total']:>9.1f} ms"]


def bar(start: float, share: float) -> str:
    """Return a bar as text. A share above 0 is shown as at least an eighth of a character.

    `start`, `share`: where the bar begins, and how long it is, as fractions of `WIDTH`.
    """
    blanks = round(start * WIDTH)
    eighths = max(round(share * WIDTH * 8), 1 if share > 0 else 0)
    full, part = divmod(eighths, 8)
    return " " * min(blanks, WIDTH - 1) + "█" * full + (_EIGHTHS[part] if part else "")


MAX_LINES: Final = 40
MAX_COLUMNS: Final = 2000
_GATEWAY_HEADERS: Final = ("gateway-", "server-timing", "x-request-id")


def heading(text: str) -> str:
    return click.style(text, bold=True)


def request_text(report: Mapping[str, Any], dry_run: bool) -> str:
    """Return the request as text. `report`: the response to a dry run."""
    lines = [
        heading("The request as it would be sent" if dry_run else "The request as sent to the provider"),
        f"  {report['method']} {report['url']}",
    ]
    lines += [f"  {name}: {value}" for name, value in report["headers"]]
    if report["body"] is not None:
        length = report["body"]["length_bytes"]
        body = "a body in chunks" if length is None else f"a body of {counted(length, 'byte')}"
        lines.append(f"  ({body})")
    return "\n".join(lines)


def response_head(status: int, reason: str, headers: Iterable[tuple[str, str]]) -> str:
    """Return the status and the header fields as text. The gateway's own fields are dimmed."""
    color = "green" if status < 300 else "yellow" if status < 400 else "red"
    lines = [f"{heading('The response')}  {click.style(f'{status} {reason}'.strip(), fg=color, bold=True)}"]
    for name, value in headers:
        line = f"  {name}: {value}"
        lines.append(click.style(line, dim=True) if name.lower().startswith(_GATEWAY_HEADERS) else line)
    return "\n".join(lines)


def response_body(content: bytes, content_type: str, *, show_all: bool, is_whole: bool) -> str:
    """Return the body as text: JSON is indented, other text stays unchanged.

    If the content is not text, only its size is shown. Long text is cut, with a note, unless `show_all` is set.
    """
    if not content:
        return "  (no body)"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        if is_whole:
            size = f"{counted(len(content), 'byte')} of {content_type or 'unknown type'}"
            return f"  ({size}, not shown; the curl line below saves them with -o FILE)"
        text = content.decode("utf-8", "ignore")
    try:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        text = text.replace("\r\n", "\n").removesuffix("\n")
    lines = without_control_characters(text).split("\n")
    if show_all:
        return "\n".join(lines)
    shown_lines = [line if len(line) <= MAX_COLUMNS else line[:MAX_COLUMNS] + " …" for line in lines[:MAX_LINES]]
    hidden_count = len(lines) - len(shown_lines)
    if hidden_count or not is_whole:
        remainder = f"{hidden_count:,} more lines" if is_whole else "there is more"
        shown_lines.append(click.style(f"… {remainder}; --all shows everything", fg="cyan"))
    elif any(len(line) > MAX_COLUMNS for line in lines):
        shown_lines.append(click.style("… long lines are cut; --all shows everything", fg="cyan"))
    return "\n".join(shown_lines)


def timing_text(durations: dict[str, float]) -> str:
    return "\n".join([heading("Where the time went"), *(f"  {line}" for line in timing_chart(durations))])


def snippets_text(sent_call: SentCall, names: Sequence[str], key_file: Path | None) -> str:
    """Return the snippets called `names`, after the command that sets the secret key's variable."""
    if key_file is not None:
        export_line = f'export {try_snippets.VARIABLE}="$(cat {shlex.quote(str(key_file))})"'
    else:
        export_line = f"export {try_snippets.VARIABLE}=…    # the environment's secret key"
    sections = [f"{heading('The same call in your program')}\n\n{export_line}"]
    for name in names:
        label, format_snippet = try_snippets.ALL[name]
        sections.append(
            f"{click.style(f'# {label}' if name != 'curl' else '# curl', dim=True)}\n{format_snippet(sent_call)}"
        )
    return "\n\n".join(sections)
