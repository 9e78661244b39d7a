"""The way to the gateway: its address, and in words why nobody answers there."""

import ssl
from urllib.parse import urlsplit

import aiohttp

from gateway.client.errors import Unreachable


def checked(base_url: str) -> str:
    """The gateway's address without a slash at its end. Raises ValueError for what cannot be one."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f"'{base_url}' is no address of a gateway; write it with http:// or https://, as in http://127.0.0.1:3003"
        )
    return base_url.rstrip("/")


def unreachable(base_url: str, fault: Exception) -> Unreachable:
    """What to raise for `fault`, which came instead of an answer."""
    cause, step = _told(fault)
    return Unreachable(f"no answer from the gateway at {base_url}: {cause}; {step}", cause)


def _told(fault: Exception) -> tuple[str, str]:
    """The cause, and the next step."""
    runs = "check that it runs (`gateway serve`, or `gateway demo`) and that this is its address"
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return f"there is no host of the name '{fault.host}'", "check the address"
    if isinstance(fault, aiohttp.ClientSSLError | ssl.SSLError):
        return _words(fault), "check the scheme (http or https) and that this machine trusts the gateway's certificate"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return _words(fault.os_error), runs
    if isinstance(fault, aiohttp.ServerDisconnectedError):
        return "it hung up before it answered", "send the call again if it may be sent twice"
    if isinstance(fault, aiohttp.ConnectionTimeoutError):
        return "the connection was not taken in time (connect_s)", runs
    if isinstance(fault, TimeoutError):
        return "nothing came for too long (silence_s)", "allow for more with silence_s, or look into the gateway's log"
    if isinstance(fault, aiohttp.ClientResponseError):
        first = fault.message.partition("\n")[0].rstrip(": ")  # the parser quotes what it got below
        return f"what answers does not speak HTTP as a gateway does ({first})", "check host and port"
    return _words(fault), runs


def _words(fault: BaseException) -> str:
    """Of an OSError its cause alone: its text names addresses as tuples, and several of them at once."""
    if isinstance(fault, aiohttp.ClientConnectorError):
        fault = fault.os_error
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({fault.verify_message})"
    if isinstance(fault, ssl.SSLError):
        return f"no TLS connection could be made ({fault.reason or 'unknown cause'})"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(fault, OSError) and fault.strerror and "Connect call failed" not in fault.strerror:
        return fault.strerror.lower()
    return "nothing listens there" if "Connect call failed" in str(fault) else str(fault) or type(fault).__name__
