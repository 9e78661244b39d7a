"""The call itself: from what was typed to a request, and from the answer to what can be shown."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click

from gateway.cli.trial.body import read as read_body
from gateway.cli.trial.named import Named
from gateway.cli.trial.snippets import Sent
from gateway.client import Client, Stream
from gateway.client.message import proxied

METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Z-]+")  # RFC 9110 §9.1


@dataclass(frozen=True, slots=True)
class Wish:
    """What was typed, but for which gateway."""

    integration: str | None
    connection: str | None
    path: str | None
    method: str | None
    body: str | None
    headers: tuple[str, ...]
    query: tuple[str, ...]
    dry: bool
    everything: bool
    snippet: str
    as_json: bool


def call_of(url: str, wish: Wish, named: Named) -> Sent:
    """Raises BadParameter for what cannot be meant."""
    body = None if wish.body is None else read_body(wish.body)
    fields: dict[str, str] = {}
    for line in wish.headers:
        field, colon, value = line.partition(":")
        if not colon or not field.strip():
            raise click.BadParameter(f"'{line}' is not 'NAME: VALUE'", param_hint="-H")
        fields[field.strip()] = value.strip()
    if body is not None and "content-type" not in {field.lower() for field in fields}:
        fields["Content-Type"] = body.content_type
    pairs = []
    for pair in wish.query:
        field, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE", param_hint="-q")
        pairs.append((field, value))
    target = proxied(url, named.path, pairs).removeprefix(f"{url}/proxy")
    method = (wish.method or ("GET" if body is None else "POST")).upper()
    if not METHOD.fullmatch(method):
        raise click.BadParameter(f"'{method}' is no method", param_hint="-X")
    return Sent(url, method, target, named.integration, named.connection, fields, body)


@contextmanager
def streamed(client: Client, sent: Sent, *, dry: bool = False) -> Iterator[Stream]:
    headers = {**sent.headers, **({"Gateway-Dry-Run": "true"} if dry else {})}
    options: dict[str, Any] = {} if sent.body is None else {"data": sent.body.content}
    with client.stream(
        sent.method,
        sent.target,
        provider_config_key=sent.integration,
        connection_id=sent.connection,
        headers=headers,
        **options,
    ) as answer:
        yield answer


def read_answer(answer: Stream, enough: int | None, *, live: bool) -> tuple[bytes, bool]:
    """The body and whether that is all; Ctrl-C ends an answer that has no end. `live`: said back as it comes."""
    content = bytearray()
    try:
        for piece in answer:
            content += piece
            if live:
                click.echo(piece.decode("utf-8", "replace"), nl=False)
            if enough is not None and len(content) >= enough:
                return bytes(content), False
    except KeyboardInterrupt:
        return bytes(content), False
    return bytes(content), True


def value(content: bytes) -> Any:
    """JSON as JSON, text as text, anything else as base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(content).decode()}
    try:
        return json.loads(text)
    except ValueError:
        return text
