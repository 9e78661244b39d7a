"""Where the time of a call went, from ``Server-Timing`` and the caller's own clock, as numbers and as a small picture."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

WIDTH: Final = 40
_METRIC: Final = re.compile(r"\s*([!#$%&'*+.^_`|~\w-]+)\s*;[^,]*?\bdur=\"?([0-9.]+)")  # W3C Server Timing, §4
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
# As the gateway names them, and as people say it.
PARTS: Final = {"gateway": "gateway", "token": "token", "upstream": "provider"}


def parts(fields: Iterable[str], total_ms: float) -> dict[str, float]:
    """Milliseconds: ``gateway``, ``token``, ``upstream``, the rest as ``transfer``, and ``total``.

    Of several fields the last that has a name counts: ours stands behind a provider's own.
    """
    told: dict[str, float] = {}
    for field in fields:
        for found in _METRIC.finditer(field):
            if found[1] in PARTS and found[2].count(".") <= 1:
                told[found[1]] = float(found[2])
    rest = max(0.0, total_ms - sum(told.values()))
    return {**told, "transfer": round(rest, 2), "total": round(total_ms, 2)}


def picture(told: dict[str, float]) -> Sequence[str]:
    """A line a part, its bar beginning where the one before ended."""
    total = max(told["total"], sum(ms for name, ms in told.items() if name != "total"), 1e-9)
    lines, at = [], 0.0
    for name, ms in told.items():
        if name == "total":
            continue
        label = PARTS.get(name, name)
        lines.append(f"{label:<9}{ms:>9.1f} ms  {bar(at / total, ms / total)}".rstrip())
        at += ms
    return [*lines, f"{'total':<9}{told['total']:>9.1f} ms"]


def bar(start: float, share: float) -> str:
    """Both of 1; whatever took time at all leaves a trace."""
    blanks = round(start * WIDTH)
    eighths = max(round(share * WIDTH * 8), 1 if share > 0 else 0)
    full, part = divmod(eighths, 8)
    return " " * min(blanks, WIDTH - 1) + "█" * full + (_EIGHTHS[part] if part else "")
