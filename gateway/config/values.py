"""Validates and converts the single values of a configuration, including keys and secrets.

Every function returns the value as the gateway uses it, or raises ValueError with the rule that the value breaks. No
message repeats the given value, because the value could be a misplaced secret.
"""

import base64
import binascii
import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gateway.config.model import AllowedNetwork
from gateway.origin import ANY_ADDRESS, DEFAULT_PORTS, bracketed, is_registered, non_ascii_fault
from gateway.secret import Secret
from gateway.text import counted

VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_ALLOWED: Final = re.compile(
    r"(?P<open>\[)?(?P<network>[0-9A-Fa-f.:]+?(?:/[0-9]{1,3})?)(?(open)\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_COLOR: Final = re.compile(r"#[0-9A-Fa-f]{6}")


def host(text: str) -> str:
    """Check a host name or an IP address on which the gateway listens. An IPv6 address has no brackets."""
    if text.startswith("["):
        raise ValueError("write an IPv6 address without brackets here")
    if is_address(text):
        return text
    if not is_host_name(text):
        raise ValueError("must be a host name or an IP address alone; 0.0.0.0 listens on every address")
    return text.lower()


def is_loopback(name: str) -> bool:
    """Return whether only this machine can reach `name`."""
    if is_address(name):
        return ip_address(name).is_loopback
    return name == "localhost" or name.endswith(".localhost")


def public_url(text: str) -> str:
    """Check the gateway's own base URL and remove a trailing slash.

    The scheme must be https, or http if the host is loopback. The URL can have a path.
    """
    parts = _url(text, ("https", "http"))
    name = parts.hostname or ""
    if name in ANY_ADDRESS:
        raise ValueError(f"must have a host that browsers can open; {name} is an address to listen on (server.host)")
    if parts.scheme == "http" and not is_loopback(name):
        raise ValueError("must be https, unless its host is loopback (127.0.0.1, ::1, localhost)")
    if parts.query or parts.fragment or text[-1] in "?#":
        raise ValueError("must not have a query or a fragment; remove '?' or '#' and the text after it")
    path = parts.path.rstrip("/")
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise ValueError("has a path other than plain segments such as /gateway")
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{bracketed(name)}{port}{path}"


def origin(text: str) -> str:
    """Return an origin with its port, in the format of `UpstreamRequest.origin`: ``https://api.example.com:443``."""
    parts = _url(text, ("https", "http"))
    if parts.path not in ("", "/") or parts.query or parts.fragment or text[-1] in "?#":
        raise ValueError("must be an origin, scheme://host or scheme://host:port, without a path")
    return f"{parts.scheme}://{bracketed(parts.hostname or '')}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


def allowed_host(text: str) -> str:
    """Check a host to which requests are allowed, and return it in lower case.

    Examples: ``git.example.com``, ``git.example.com:8443``, and ``*.example.com`` for all hosts below example.com.
    """
    if fault := non_ascii_fault(text):
        raise ValueError(fault)
    has_wildcard = text.startswith("*.")
    host = text[2:] if has_wildcard else text
    rule = "must be a host such as git.example.com, git.example.com:8443 or *.example.com, without https:// and path"
    try:
        parts = _url(f"https://{host}", ("https",))
    except ValueError:
        raise ValueError(rule) from None
    if parts.path or parts.query or parts.fragment or host[-1:] in {"/", "?", "#"} or "*" in host:
        raise ValueError(rule)
    name = (parts.hostname or "").lower()
    if has_wildcard and (not is_registered(name) or is_address(name)):
        raise ValueError("has a * that covers too much: write *.example.com, with a registered domain after the *")
    port = "" if parts.port in {None, 443} else f":{parts.port}"
    return f"{'*.' if has_wildcard else ''}{bracketed(name)}{port}"


def page_origin(text: str) -> str:
    """Return the origin of a web page as browsers spell it, without a default port.

    The scheme must be https, or http if the host is loopback.
    """
    parts = _url(text, ("https", "http"))
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be https, unless its host is loopback (127.0.0.1, ::1, localhost)")
    if parts.path not in {"", "/"} or parts.query or parts.fragment or text[-1] in "?#":
        raise ValueError("must be an origin alone, such as https://app.example.com")
    port = "" if parts.port in {None, DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{bracketed(parts.hostname or '')}{port}"


def color(text: str) -> str:
    if not _COLOR.fullmatch(text):
        raise ValueError('must be a color as "#rrggbb", in quotes')
    return text.lower()


def webhook_url(text: str) -> str:
    """Check the URL to which events are sent. `gateway.egress` checks later whether plain http is allowed."""
    if _url(text, ("https", "http")).fragment:
        raise ValueError("must not have a '#'")
    return text


def outbound_proxy(text: str) -> str:
    """Check the URL of an outbound proxy: ``http://host:port`` or ``http://user:password@host:port``."""
    parts = _url(text, ("http",), userinfo=True)
    if parts.port is None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("must be http://host:port, or http://user:password@host:port")
    return text.rstrip("/")


def scope(text: str) -> str:
    """Check a single OAuth scope (RFC 6749 §3.3)."""
    if not _SCOPE.fullmatch(text):
        raise ValueError("is not one scope: no spaces, quotes or commas between scopes; write one scope per item")
    return text


def app_link(text: str) -> str:
    """Check the URL of the provider's page on which end users install the app, and remove trailing slashes."""
    if _url(text, ("https", "http")).fragment:
        raise ValueError("must not have a '#'")
    return text.rstrip("/")


def network(text: str) -> AllowedNetwork:
    """Parse a network with an optional port, or a single IP address.

    Examples: ``10.0.0.0/8``, ``127.0.0.1/32:9900``, ``[::1/128]:9900``. Without brackets, a colon after the prefix
    length begins the port, as in ``::1/128:9900``.
    """
    if is_address(text):
        return AllowedNetwork(ip_network(text), None)
    match = _ALLOWED.fullmatch(text)
    if match is None:
        raise ValueError("must be a network, CIDR or CIDR:port, such as 127.0.0.1/32:9900 or [::1/128]:9900")
    network_text, port = match["network"], match["port"]
    if port and not match["open"] and "/" not in network_text and ":" in network_text:
        raise ValueError("has an ambiguous port; write [address]:port or address/128:port")
    if port and not 1 <= int(port) <= 65535:
        raise ValueError("must have a port from 1 to 65535")
    return AllowedNetwork(_network(network_text), int(port) if port else None)


def websocket_path(text: str) -> str:
    if text != "/" and (not text or not _PATH.fullmatch(text)):
        raise ValueError("must be a path such as / or /ws")
    return text


def _network(network_text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(network_text)
    except ValueError:
        pass
    try:
        network = ip_network(network_text, strict=False)
    except ValueError:
        raise ValueError("must be a network, CIDR or CIDR:port, such as 127.0.0.1/32:9900") from None
    raise ValueError(f"has bits set past its prefix; the network is {network}")


def _url(text: str, schemes: tuple[str, ...], *, userinfo: bool = False) -> SplitResult:
    """Check what all URLs have in common, and return the parts of the URL.

    `schemes`: the allowed schemes. `userinfo`: whether a user name and a password are allowed.
    """
    example = f"must be a URL such as {schemes[0]}://host.example"
    if not VISIBLE.fullmatch(text) or "\\" in text:
        raise ValueError(f"{example}, in ASCII and without spaces")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(example) from None
    name = parts.hostname or ""
    if parts.scheme not in schemes or not (is_host_name(name) or is_address(name)) or parts.netloc.endswith(":"):
        raise ValueError(example if "://" in text else f"{example}, with {schemes[0]}:// at its beginning")
    if not userinfo and "@" in parts.netloc:
        raise ValueError("must not hold a user name or a password")
    if parts.port == 0:
        raise ValueError("has port 0, which cannot be called")
    return parts


def is_host_name(name: str) -> bool:
    ends_numeric = name.rsplit(".", 1)[-1].isdigit()  # some parsers read such a name as an IP address
    return len(name) <= 253 and not ends_numeric and _HOST_NAME.fullmatch(name) is not None


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return "%" not in name


# ── Keys and secrets. These functions too return the value as the gateway uses it, or raise ValueError.

MIN_SECRET_KEY_CHARS: Final = 16
ENCRYPTION_KEY_BYTES: Final = 32
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:RSA |EC )?PRIVATE KEY-----.+-----END", re.DOTALL)


def encryption_key(text: str) -> Secret:
    """Return a master key in standard base64 with padding. The given text can also be base64url or lack padding."""
    try:
        key_bytes = base64.b64decode(_pad_base64(text.strip().translate(str.maketrans("-_", "+/"))), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not base64; {_make_a_key()}") from None
    if len(key_bytes) != ENCRYPTION_KEY_BYTES:
        raise ValueError(
            f"is {counted(len(key_bytes), 'byte')} once decoded and must be {ENCRYPTION_KEY_BYTES}; {_make_a_key()}"
        )
    return Secret(base64.b64encode(key_bytes).decode())


def secret_key(text: str) -> Secret:
    """Check a key that the application sends as ``Authorization: Bearer …``."""
    if not text:
        raise ValueError(f"is empty; {_make_a_secret_key()}")
    if not VISIBLE.fullmatch(text):
        raise ValueError("contains a character that a header cannot carry; use visible ASCII without spaces")
    if len(text) < MIN_SECRET_KEY_CHARS:
        raise ValueError(
            f"is {counted(len(text), 'character')} and must be {MIN_SECRET_KEY_CHARS} or more; {_make_a_secret_key()}"
        )
    return Secret(text)


def signing_key(text: str) -> Secret:
    """Check a key that signs events: ``whsec_`` and base64 (Standard Webhooks), or any text that `secret_key` accepts."""
    if text.startswith("whsec_"):
        try:
            base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("begins with whsec_, but what follows is not base64") from None
    return secret_key(text)


def client_value(text: str) -> str:
    """Check a client ID or client secret, which must be visible ASCII characters and spaces (RFC 6749 appendix A).

    For example, this finds a newline at the end, which the provider would refuse later.
    """
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError(
            "contains a line break, a space at its beginning or end, or a character outside ASCII; copy it from the provider "
            "again"
        )
    return text


def private_key(text: str) -> Secret:
    """Return a private key in PEM, without a passphrase. A literal ``\\n`` in `text` counts as a line break."""
    text_with_line_breaks = text.replace("\\n", "\n").strip()
    if not _PRIVATE_KEY.search(text_with_line_breaks):
        raise ValueError("must be a private key in PEM that has no passphrase; ${file:app.pem} reads one from a file")
    return Secret(text_with_line_breaks + "\n")


def _pad_base64(text: str) -> str:
    return text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)


def _make_a_secret_key() -> str:
    return "`openssl rand -hex 32` makes one"


def _make_a_key() -> str:
    return f"`openssl rand -base64 {ENCRYPTION_KEY_BYTES}` makes a key"
