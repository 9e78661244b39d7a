"""Texts for counts and causes."""

import errno
import re
import socket
from pathlib import Path

import pytest

import gateway
from gateway import middleware
from gateway.text import connect_failure, counted, sentence


@pytest.mark.parametrize(
    ("number", "expected_text"),
    [(0, "0 connections"), (1, "1 connection"), (2, "2 connections"), (12345, "12,345 connections")],
)
def test_counted_uses_the_singular_for_one_and_commas_for_thousands(number: int, expected_text: str) -> None:
    assert counted(number, "connection") == expected_text


def test_an_irregular_plural_can_be_given() -> None:
    assert (counted(1, "entry", "entries"), counted(3, "entry", "entries")) == ("1 entry", "3 entries")


@pytest.mark.parametrize("expected", ["It is down", "It is down.", "It is down. "])
def test_sentence_ends_with_one_full_stop(expected: str) -> None:
    assert sentence(expected) == "It is down."


@pytest.mark.parametrize(
    ("fault", "expected_text"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "Connection refused"),
        (OSError(errno.EHOSTUNREACH, "Multiple exceptions: [Errno 113] ('::1', 9, 0, 0)"), "No route to host"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("all gone"), "no route"),
    ],
)
def test_cause_shows_addresses_as_text(fault: OSError, expected_text: str) -> None:
    assert connect_failure(fault) == expected_text


# Names that are always plural (limits, constants), and names that are no count.
SEVERAL = re.compile(r"[A-Z]{3}|limit|max_length|program\(\)|ciphertext")
SLIP = re.compile(
    r"\{([^{}]+)\} (connections|warnings|faults|tokens|keys|values|entries|calls|attempts|files|fields|days|bytes|characters)\b"
)


def test_every_text_with_a_number_uses_counted() -> None:
    """`{n} connections` is wrong for one; `counted(n, "connection")` is right."""
    slips = [
        f"{file}:{number}: {line.strip()}"
        for package in (gateway, middleware)
        for file in Path(package.__path__[0]).rglob("*.py")
        if not {"sandbox", "rehearsal"} & {*file.parts} and file.name != "text.py"
        for number, line in enumerate(file.read_text().splitlines(), 1)
        for found in SLIP.finditer(line)
        if not SEVERAL.search(found[1])
    ]
    assert slips == []
