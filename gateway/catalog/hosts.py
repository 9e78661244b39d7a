"""Separates hosts that an entry fixes from hosts that a connection's setting chooses.

An entry fixes a host if the URL's text, or the rule of a setting, fixes the registered domain: ``api.example.com``,
``${connectionConfig.subdomain}.example.com``, or a setting with an `enum` or `pattern` that ends in ``.example.com``.
All other hosts are open: the person who enters the setting chooses the server.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting
from gateway.catalog.template import Name
from gateway.catalog.template_places import text_templates, url_templates
from gateway.catalog.url_template import Piece, parse_url_template
from gateway.catalog.value import compile_pattern
from gateway.documents.read_document import dotted
from gateway.origin import DEFAULT_PORTS, is_registered

ANY_PORT: Final = 0
# In these auth modes, proxied requests are signed with a secret of the integration, or the server at the base URL names
# the token URL.
_MODES_WITH_SECRET_IN_CALLS: Final = frozenset({"OAUTH1", "TBA", "INSTALL_PLUGIN", "MCP_OAUTH2_GENERIC"})
_MAX_ENDINGS: Final = 512  # maximum number of endings of one pattern; a pattern with more endings counts as open

_CHAR: Final = r"[A-Za-z0-9_:/-]|\\[^A-Za-z0-9|]"
_PART: Final = re.compile(
    rf"(?:\((?:\?:)?(?P<choices>(?:{_CHAR}|\|)*)\)|(?P<char>{_CHAR})|(?P<odd>[|()])|\[\^?\]?(?:[^\]\\]|\\.)*+\]|\\?.)"
    r"(?P<times>[*+?]|\{[^}]*\})?",
    re.DOTALL,
)
"""Matches one piece of a regular expression with its repetition. A piece is a group of plain choices, a plain
character, or anything else."""
_SCHEME: Final = re.compile(r"\^?(?:https?\??|\((?:\?:)?https?\|https?\)):(?:\\?/){2}")
Ending = tuple[str, bool]
"""A possible ending of a text, and whether the ending is the whole text."""
_UNKNOWN: Final[tuple[Ending, ...]] = (("", False),)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A pattern that matches one host, or all hosts with the same ending.

    `text`: the host in lower case, or the ending if `suffix` is true. `port`: the port; None: the default port of the
    scheme; `ANY_PORT`: any port.
    """

    text: str
    suffix: bool = False
    port: int | None = None

    def matches(self, host: str, port: int, scheme: str) -> bool:
        """Return whether the pattern matches this host and port. `scheme`: ``http`` or ``https``."""
        if self.port != ANY_PORT and port != (self.port or DEFAULT_PORTS[scheme]):
            return False
        return (host.endswith(self.text) and len(host) > len(self.text)) if self.suffix else host == self.text


def parse_pattern(text: str) -> HostPattern:
    """Parse a valid item of `allowed_hosts`: ``host``, ``host:port``, ``*.example.com`` or ``*.example.com:port``."""
    parts = urlsplit(f"//{text.removeprefix('*')}")
    host = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
    return HostPattern(host.lower(), text.startswith("*."), parts.port)


def fixes_host(provider: Provider, scheme: str, host: str, port: int) -> bool:
    """Return whether this host and port are among the hosts that the entry's URLs fix."""
    return any(
        pattern.matches(host, port, scheme)
        for _, template in url_templates(provider)
        for pattern in _fixed_hosts_and_setting(provider, template)[0]
    )


def open_urls(provider: Provider) -> Iterator[tuple[str, str]]:
    """Yield the field and the setting of each URL whose host a setting chooses: ``("token_url", "domain")``."""
    for place, template in url_templates(provider):
        if (setting := open_setting(provider, template)) is not None:
            yield dotted(place), setting


def open_secret_urls(provider: Provider) -> Iterator[tuple[str, str]]:
    """Yield the field and the setting of each open URL to which a secret of the integration would be sent.

    These are all open URLs except `authorization_url`. URLs below `proxy` count only if API calls contain the client
    secret or are signed with it, or if the server at the base URL names the token URL.
    """
    calls_have_secret = provider.auth_mode in _MODES_WITH_SECRET_IN_CALLS or any(
        "clientSecret" in text for path, text in text_templates(provider) if path[0] == "proxy"
    )
    for place, setting in open_urls(provider):
        key = place.removeprefix("alternatives.").partition("[")[0]
        if key != "authorization_url" and (calls_have_secret or not key.startswith("proxy.")):
            yield place, setting


def open_setting(provider: Provider, template: str) -> str | None:
    """Return the setting that chooses the host of this URL template; None if the entry fixes the host."""
    return _fixed_hosts_and_setting(provider, template)[1]


def _fixed_hosts_and_setting(provider: Provider, template: str) -> tuple[tuple[HostPattern, ...], str | None]:
    if "${" not in template:
        return _patterns(template, ())
    url = parse_url_template(template)
    names = [piece.name for piece in (url.whole_base_url, *url.host) if isinstance(piece, Name)]
    return _patterns(template, tuple((name, *_setting_rule(provider.connection_config, name)) for name in names))


def _setting_rule(settings: Mapping[str, Setting], name: str) -> tuple[str | None, tuple[str, ...] | None, str | None]:
    """Return the pattern, the enum and the default value of the setting that the placeholder `name` names.

    A value is None if the setting does not have it, or if there is no such setting. With `any_host`, the pattern is None.
    """
    setting = settings.get(name.removeprefix("connectionConfig.")) if name.startswith("connectionConfig.") else None
    if setting is None:
        return None, None, None
    enum = None if setting.enum is None else tuple(setting.enum)
    return (None if setting.any_host else setting.pattern), enum, setting.default_value


@lru_cache(maxsize=8192)
def _patterns(
    template: str, rules: tuple[tuple[str, str | None, tuple[str, ...] | None, str | None], ...]
) -> tuple[tuple[HostPattern, ...], str | None]:
    """Return the hosts that the URL `template` can have, as patterns, and the setting that chooses the host.

    The setting is None if no setting can choose a host freely.

    `rules`: for each placeholder in the host, its name and the result of `_setting_rule`.
    """
    url = parse_url_template(template)
    known_endings = {name: _setting_endings(pattern, enum) for name, pattern, enum, _ in rules}
    if url.whole_base_url is not None and any(
        pattern and not enum and _may_leave_host(pattern) for _, pattern, enum, _ in rules
    ):
        known_endings = {}
    defaults: dict[str, Sequence[Ending]] = {name: ((value.lower(), True),) for name, *_, value in rules if value}
    patterns: list[HostPattern] = []
    is_open = False
    port = ANY_PORT if isinstance(url.port, Name) else int(url.port) if url.port else None
    pieces: tuple[Piece, ...] = (url.whole_base_url,) if url.whole_base_url is not None else url.host
    default_endings = [ending for ending in _joined_endings(pieces, {**known_endings, **defaults}) if ending[1]]
    for host_ending, is_whole in (*_joined_endings(pieces, known_endings), *default_endings):
        text = host_ending
        if url.whole_base_url is not None:
            text, port = _authority(host_ending)
        if text.startswith("*."):
            patterns.append(HostPattern(text[1:], True, port))
        elif is_whole or _fixes_domain(text):
            patterns.append(HostPattern(text, not is_whole, port))
        else:
            is_open = True
    return tuple(dict.fromkeys(patterns)), (
        rules[-1][0].removeprefix("connectionConfig.") if is_open and rules else None
    )


def _authority(text: str) -> tuple[str, int | None]:
    """Return the host and the port of a base URL.

    `text`: the base URL, or only its ending; then the result has only the ending of the host. The port is None if the
    URL has none.
    """
    authority = text.rpartition("://")[2].partition("/")[0]
    host, colon, port = authority.rpartition(":")
    return (host, int(port)) if colon and port.isdigit() else (authority, None)


def _joined_endings(pieces: Sequence[Piece], known_endings: Mapping[str, Sequence[Ending]]) -> list[Ending]:
    parts: list[Sequence[Ending]] = [
        ((piece.lower(), True),) if isinstance(piece, str) else known_endings.get(piece.name, _UNKNOWN)
        for piece in pieces
    ]
    return _concatenated_endings(parts)


def _fixes_domain(ending: str) -> bool:
    """Return whether all hosts with this ending belong to one owner."""
    return is_registered(ending.partition(".")[2])


def _setting_endings(pattern: str | None, enum: tuple[str, ...] | None) -> Sequence[Ending]:
    if enum is not None:
        return tuple((value.lower(), True) for value in enum)
    return _UNKNOWN if pattern is None else _endings(pattern)


@lru_cache(maxsize=1024)
def _endings(pattern: str) -> Sequence[Ending]:
    """Return the possible endings of the texts that match `pattern`.

    Only plain characters and groups of plain choices are analysed. Any other piece counts as any text, and so does the
    whole pattern if it has ``|`` outside a group, or nested groups.
    """
    parts: list[Sequence[Ending]] = []
    for piece in _PART.finditer(pattern):
        if piece["odd"]:
            return _UNKNOWN
        literal_text = piece["choices"] if piece["char"] is None else piece["char"]
        if literal_text is None or piece["times"] not in {None, "?"}:
            parts.append(_UNKNOWN)
            continue
        texts = literal_text.replace("\\", "").lower().split("|")
        parts.append([(text, True) for text in (*texts, *([""] if piece["times"] else []))])
    return tuple(_concatenated_endings(parts))


@lru_cache(maxsize=1024)
def _may_leave_host(pattern: str) -> bool:
    """Return whether a URL that matches `pattern` can have a ``/`` between its scheme and its known ending.

    The known ending is then not the ending of the host: ``https://.+\\.example\\.com`` matches
    ``https://attacker.test/.example.com``.
    """
    scheme = _SCHEME.match(pattern)
    may_leave, may_have_slash = False, False
    for piece in _PART.finditer(pattern, scheme.end() if scheme else 0):
        literal_text = piece["choices"] if piece["char"] is None else piece["char"]
        may_have_slash = may_have_slash or (
            "/" in literal_text
            if literal_text is not None
            else _matches_slash(piece[0].removesuffix(piece["times"] or ""))
        )
        # A part that can be any text ends the search: the known ending begins after this part.
        if literal_text is None or piece["times"] not in {None, "?"}:
            may_leave = may_leave or may_have_slash
    return may_leave


def _matches_slash(part: str) -> bool:
    try:
        return compile_pattern(part).fullmatch("/") is not None
    except re.error:
        return True


def _concatenated_endings(parts: Sequence[Sequence[Ending]]) -> list[Ending]:
    """Return the possible endings of the concatenated `parts`. The search starts at the last part."""
    endings: list[Ending] = [("", True)]
    for part in reversed(parts):
        longer_endings = [
            (text + ending_text, is_whole) for ending_text, can_grow in endings if can_grow for text, is_whole in part
        ]
        endings = list(dict.fromkeys([*(ending for ending in endings if not ending[1]), *longer_endings]))
        if len(endings) > _MAX_ENDINGS:
            return list(_UNKNOWN)
    return endings
