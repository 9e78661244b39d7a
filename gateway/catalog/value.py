"""Checks whether a value fits its setting: when a connection is saved, and again when the value is put into a URL."""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.catalog.provider_parts import Setting
from gateway.origin import non_ascii_fault

MAX_LENGTH: Final = 255  # maximum length of a value in characters, which also limits the time to match a pattern
MAX_SECRET_LENGTH: Final = 8192
_HOST_FORMATS: Final = frozenset({"hostname", "uri"})
_FORMAT_TEXTS: Final = {"hostname": "a host name", "uri": "a URL", "uuid": "a UUID", "email": "an e-mail address"}

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
EMAIL = re.compile(r"[^\s@]{1,64}+@[^\s@][^\s@.]*+\.[^\s@]++")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_INTEGER = re.compile(r"\s*[+-]?(?:0x[0-9a-f]+|[0-9]+)", re.IGNORECASE)


class BadValue(ValueError):
    """A value is not allowed.

    `name`: the setting's name. `why`: what is wrong or expected; this text never contains the value.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def check_value(name: str, value: str, setting: Setting) -> None:
    """Raise BadValue if `value` violates the length limit, pattern, enum or format of `setting`.

    A value can have 255 characters, or 8192 characters if the setting is secret and has no pattern. Control characters
    are not allowed.
    """
    limit = MAX_SECRET_LENGTH if setting.secret and not setting.pattern else MAX_LENGTH
    if len(value) > limit:
        raise BadValue(name, f"is longer than {limit} characters")
    if _CONTROL.search(value):
        raise BadValue(name, "contains a control character")
    if setting.format in _HOST_FORMATS and not setting.secret and (fault := non_ascii_fault(value)):
        raise BadValue(name, fault)
    if setting.enum is not None and value not in setting.enum:
        raise BadValue(name, f"must be one of {', '.join(setting.enum)}")
    if setting.pattern is not None and not compile_pattern(setting.pattern).fullmatch(value):
        raise BadValue(name, f"must match the pattern {setting.pattern}" + _example_text(setting))
    if setting.format is not None and not _has_format(value, setting.format):
        raise BadValue(name, f"must be {_FORMAT_TEXTS[setting.format]}" + _example_text(setting))


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile `pattern`, for use with ``fullmatch``. Raises re.error."""
    return re.compile(pattern, re.ASCII)


def is_label(text: str) -> bool:
    """Return whether `text` is one DNS label in lower case (RFC 1123 §2.1)."""
    return _LABEL.fullmatch(text) is not None


def is_hostname(text: str) -> bool:
    """Return whether `text` consists of DNS labels in lower case, or is an IPv4 address of four decimal numbers.

    Other spellings of an IPv4 address (``127.1``, ``0x7f000001``, ``2130706433``) are refused, because parsers read
    such spellings differently.
    """
    labels = text.split(".")
    if len(text) > 253 or not all(map(is_label, labels)):
        return False
    return not _INTEGER.fullmatch(labels[-1]) or _is_ipv4(text)


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.IPv6Address(text).scope_id is None
    except ValueError:
        return False


def setting_values(config: Mapping[str, Any], settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return a connection's settings by the names that templates use, for `render_text`.

    For example, ``{"cloudId": "1", "team": {"id": 7}}`` becomes
    ``{"connectionConfig.cloudId": "1", "connectionConfig.team.id": "7"}``. An unset or empty setting gets its default
    value, or is left out if it has none. Only text and numbers are included.
    """
    values = {name: setting.default_value for name, setting in settings.items() if setting.default_value}
    values.update({name: text for name, text in flat_values(config).items() if text})
    return {f"connectionConfig.{name}": text for name, text in values.items()}


def flat_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts and numbers in `values` by dotted path.

    If `values` has both ``{"a.b": …}`` and ``{"a": {"b": …}}``, the nested value wins.
    """
    flat: dict[str, str] = {}
    nested: dict[str, str] = {}
    for name, value in values.items():
        match value:
            case str():
                flat[name] = value
            case bool():
                pass
            case int() | float():
                flat[name] = str(value)
            case Mapping():
                nested.update({f"{name}.{path}": text for path, text in flat_values(value).items()})
    return flat | nested


def _example_text(setting: Setting) -> str:
    return f", for example {setting.example}" if setting.example else ""


def _has_format(value: str, format_: str) -> bool:
    match format_:
        case "hostname":
            # Check isascii() first, because lower() turns U+212A (Kelvin sign) into "k".
            return value.isascii() and is_hostname(value.lower())
        case "uuid":
            return _UUID.fullmatch(value) is not None
        case "email":
            return EMAIL.fullmatch(value) is not None
        case _:
            return is_web_url(value)


def is_web_url(text: str) -> bool:
    """Return whether `text` is an absolute http or https URL of visible ASCII, without user information."""
    if not text.isascii() or any(c <= " " or c in '\\"<>^`{|}\x7f' for c in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme.lower() not in {"http", "https"} or "@" in parts.netloc or not parts.hostname:
        return False
    return _is_ipv6(parts.hostname) if parts.netloc.startswith("[") else is_hostname(parts.hostname)
