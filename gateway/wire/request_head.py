"""The head of a request as bytes: what it is given, and a framing of ours."""

from collections.abc import Iterable

from gateway.wire.fields import TEXT


def request_head(method: str, target: str, host: str, fields: Iterable[tuple[str, str]], framing: str = "") -> bytes:
    """`framing` holds whole lines. Lone surrogates become the bytes they stand for.

    Raises ValueError if a control character, or a space in the target, would make another message of it.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}{framing}\r\n".encode("utf-8", "surrogateescape")
    breaks = len(lines) + 2 + framing.count("\n")
    if head.translate(None, TEXT) != b"\r\n" * breaks or " " in target or " " in method:
        raise ValueError("a control character in the head of a request")
    return head
