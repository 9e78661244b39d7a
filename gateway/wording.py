"""How counts and causes are put into words, in whatever we print, log or answer."""

import os
import socket


def counted(number: int, thing: str, things: str | None = None) -> str:
    """``1 connection``, ``2,000 connections``. `things`: the plural, where that is more than an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def sentence(text: str) -> str:
    """With one full stop at its end: what others tell comes with and without."""
    return f"{text.rstrip('. ')}."


def unconnected(fault: OSError) -> str:
    """Why no connection came about: asyncio's own text holds the address as a tuple, or several of them."""
    if fault.errno is None or isinstance(fault, socket.gaierror):
        return fault.strerror or "no route"
    return os.strerror(fault.errno)
