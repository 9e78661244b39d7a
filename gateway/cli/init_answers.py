"""The settings of a new configuration, from options or from prompts on a terminal."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog
    from gateway.catalog.provider import Provider

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 3003
MAX_PORTS_TRIED: Final = 20  # number of ports that `free_port` tries
DEFAULT_STORE: Final = "sqlite:///gateway.db"


@dataclass(frozen=True, slots=True)
class Answers:
    """The settings of a new configuration; None means that the user has not set the value.

    `provider`: the catalog name of the first integration's provider.
    `fallback_port`: the port to listen on if neither `port` nor `public_url` contains a port.
    """

    public_url: str | None = None
    host: str | None = None
    port: int | None = None
    store_url: str | None = None
    provider: str | None = None
    webhook_url: str | None = None
    fallback_port: int = DEFAULT_PORT


def check_answers(answers: Answers, catalog: "Callable[[], Catalog]") -> Answers:
    """Return the answers, validated and normalized. Raises BadParameter, which names the option."""
    return replace(
        answers,
        public_url=_checked_flag("--public-url", answers.public_url, _public_url),
        host=_checked_flag("--host", answers.host, _host),
        store_url=_checked_flag("--store-url", answers.store_url, _store_url),
        provider=_checked_flag("--provider", answers.provider, lambda name: _provider(name, catalog())),
        webhook_url=_checked_flag("--webhook-url", answers.webhook_url, _webhook_url),
    )


def prompt_for_answers(answers: Answers, catalog: "Callable[[], Catalog]") -> Answers:
    """Prompt on stderr for each setting that no option sets.

    After an invalid answer, print the reason and prompt again.
    """
    if answers.public_url is None:
        click.echo(
            "The URL by which browsers and providers will reach the gateway: https, or a loopback address of this machine.",
            err=True,
        )
        url = default_url(answers)
        answers = replace(answers, public_url=_prompt("Public URL", url, _public_url))
    if answers.store_url is None:
        click.echo("The database for connections: a SQLite file for one machine, PostgreSQL for several.", err=True)
        answers = replace(answers, store_url=_prompt("Store", DEFAULT_STORE, _store_url))
    if answers.provider is None:
        click.echo("The first provider to integrate, such as jira, github or google-mail; empty for none.", err=True)
        answers = replace(answers, provider=_prompt("Provider", "", lambda name: _provider(name, catalog())) or None)
    if answers.webhook_url is None:
        click.echo(
            "The URL at which your application receives events; empty for none.",
            err=True,
        )
        answers = replace(answers, webhook_url=_prompt("Webhook URL", "", _webhook_url) or None)
    return answers


def default_url(answers: Answers) -> str:
    from gateway.config.model import default_public_url

    host = answers.host if answers.host in ("127.0.0.1", "::1", "localhost") else DEFAULT_HOST
    return default_public_url(host, answers.port or answers.fallback_port)


def free_port(host: str) -> int:
    """Return the first free port from `DEFAULT_PORT` on.

    If `MAX_PORTS_TRIED` ports in a row are in use, return `DEFAULT_PORT`.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + MAX_PORTS_TRIED)
    return next((port for port in ports if not is_taken(host, port)), DEFAULT_PORT)


def is_taken(host: str, port: int) -> bool:
    """Return whether another process listens on `host` and `port`.

    Return False if the port cannot be checked, for example because `host` is another machine.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as socket_:
            # Without this option, a closed connection on this port would also make the bind fail.
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            socket_.bind((host, port))
            return False
    except OSError as fault:
        return fault.errno == errno.EADDRINUSE


def port_warning(answers: Answers) -> str | None:
    """Return a warning if the default port, or the port that the user has set, is in use; otherwise None."""
    host, port = host_and_port(answers)
    if port == answers.fallback_port != DEFAULT_PORT:
        return (
            f"port {DEFAULT_PORT} is in use, so server.port is {port}; Ctrl-C stops a demo (`gateway demo`, `make run`)"
        )
    if is_taken(host, port):
        return f"port {port} is in use: stop the process that listens there before `gateway serve`, or set another server.port"
    return None


def loopback_warning(answers: Answers) -> str | None:
    """Return a warning if other machines can reach the gateway, but not its public URL; otherwise None.

    Other machines cannot reach a public URL with a loopback address.
    """
    from gateway.config.values import is_loopback

    host, _ = host_and_port(answers)
    if is_loopback(host) or not is_loopback(urlsplit(answers.public_url or "").hostname or ""):
        return None
    return (
        f"server.host is {host}, but server.public_url is {answers.public_url}, which works only on this machine: set "
        "server.public_url to the https URL that browsers will use (--public-url)"
    )


def host_and_port(answers: Answers) -> tuple[str, int]:
    """Return the host and port to listen on.

    A value that the user has set comes first, then the value in a public URL with http, then the default. A public URL
    with https has no effect here, because another server then terminates TLS.
    """
    parts = urlsplit(answers.public_url or "")
    host, port = DEFAULT_HOST, answers.fallback_port
    if parts.scheme == "http":
        host, port = parts.hostname or DEFAULT_HOST, parts.port or 80
    return answers.host or host, answers.port if answers.port is not None else port


def _checked_flag(flag: str, value: str | None, check: Callable[[str], str]) -> str | None:
    if value is None:
        return None
    try:
        return check(value)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint=flag) from None


def _prompt(question: str, default: str, check: Callable[[str], str]) -> str:
    def read(answer: str) -> str:
        try:
            return check(answer) if answer else answer
        except ValueError as fault:
            raise click.BadParameter(str(fault)) from None

    answer: str = click.prompt(question, default=default, value_proc=read, err=True)
    return answer


def _public_url(text: str) -> str:
    from gateway.config import values

    try:
        return values.public_url(text)
    except ValueError as fault:
        raise ValueError(f"it {fault}") from None


def _host(text: str) -> str:
    from gateway.config import values

    try:
        return values.host(text)
    except ValueError as fault:
        raise ValueError(f"it {fault}" if str(fault).startswith("must") else str(fault)) from None


def _webhook_url(text: str) -> str:
    from gateway.config import values

    try:
        return values.webhook_url(text)
    except ValueError as fault:
        raise ValueError(f"it {fault}") from None


def _store_url(text: str) -> str:
    """Return the checked store URL. Raises ValueError.

    A URL with a ``${…}`` reference is returned unchecked: its value is unknown here, and `gateway check` checks it
    later.
    """
    from gateway.config import store_url
    from gateway.store.preflight import check_url
    from gateway.store.preflight_checks import StoreRefused

    if "${" in text:
        return text
    try:
        url = store_url.check_store_url(text)
        check_url(url)
    except StoreRefused as refusal:
        raise ValueError(str(refusal)) from None
    except ValueError as fault:
        raise ValueError(f"it {fault}") from None
    return url


def _provider(name: str, catalog: "Catalog") -> str:
    if name not in catalog.providers:
        hint = catalog.suggestion(name) or "; `gateway catalog list --search WORD` finds one"
        raise ValueError(f"the catalog has no provider '{name}'{hint}")
    return name


def find_entry(answers: Answers, catalog: "Callable[[], Catalog]") -> "Provider | None":
    return catalog().providers[answers.provider] if answers.provider else None
