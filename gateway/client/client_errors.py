"""The exceptions of a call by their cause, and the checks of the gateway's base URL and of the secret key.

CallFailed
├── GatewayError     the gateway refused the call: `code`, `message`, `payload`
│   └── PagingBroken a list was interrupted: continue with `cursor`
├── ProviderError    the provider returned an error, and the caller wants an exception: `response`
├── Unreachable      the gateway could not be reached, or sent no response
└── CutShort         a response began but is incomplete
"""

import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp

if TYPE_CHECKING:
    from gateway.client.client_response import Response


class CallFailed(Exception):
    """The base class of the exceptions of a call.

    All these exceptions can be pickled, so that they can be sent from one process to another.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.args, self.__dict__)


def _unpickle(kind: type[CallFailed], args: tuple[Any, ...], members: Mapping[str, Any]) -> CallFailed:
    fault = kind.__new__(kind, *args)  # without `__init__`, because its arguments are not `args`
    fault.__dict__.update(members)
    return fault


class GatewayError(CallFailed):
    """An error of the gateway.

    `status`: the HTTP status. `code`: the reason, which stays the same in later versions (docs/http-api.md). `errors`:
    the single faults, each with ``code``, ``message`` and ``path``. `payload`: details for programs. `request_id`: the
    gateway's id of the call. `retry_after_s`: the seconds to wait before a retry; None: the gateway states no time.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        errors: tuple[Mapping[str, Any], ...] = (),
        payload: Mapping[str, Any] | None = None,
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors
        self.payload = payload or {}
        self.request_id = request_id
        self.retry_after_s = retry_after_s

    @property
    def connect_url(self) -> str | None:
        """The link with which the end user connects or connects again; None if the error has no link."""
        url = self.payload.get("connect_url")
        return url if isinstance(url, str) else None

    @property
    def retry_at(self) -> datetime | None:
        """The earliest time to call again, with a time zone; None if the gateway states no time."""
        try:
            moment = datetime.fromisoformat(str(self.payload.get("retry_at")))
        except ValueError:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class PagingBroken(GatewayError):
    """A list was interrupted after some records.

    `cursor`: the cursor that continues the list after the records that were returned; None: the list cannot be
    continued.
    """

    def __init__(self, error: Mapping[str, Any], cursor: str | None, request_id: str) -> None:
        payload = error.get("payload")
        super().__init__(
            int(error.get("status", 502)),
            str(error.get("code", "")),
            str(error.get("message", "")),
            payload=payload if isinstance(payload, Mapping) else None,
            request_id=request_id,
        )
        self.cursor = cursor


class ProviderError(CallFailed):
    """The provider returned a status of 400 or more."""

    def __init__(self, response: "Response") -> None:
        text = f"the provider returned {response.status} {response.reason}: {response.text[:200]}"
        super().__init__(text if response.request_id else _not_a_gateway_message(response))
        self.response = response
        self.status = response.status

    @property
    def answer(self) -> "Response":
        """The former name of `response`."""
        return self.response


class Unreachable(CallFailed):
    """The gateway could not be reached, or closed the connection without a response. `cause`: a short reason."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class CutShort(CallFailed):
    """The response was interrupted, or no further part of the response was received within `silence_s` seconds."""


def refusal(response: "Response") -> GatewayError:
    """Return the error in a response of the gateway.

    If the response comes from another server, it has no ``Gateway-Error`` and no request id. Then the error's code is
    empty.
    """
    try:
        error = json.loads(response.content)["error"]
        code, message = str(error["code"]), str(error.get("message", ""))
    except (ValueError, KeyError, TypeError):
        error = {}
        code = response.headers.get("Gateway-Error", "")
        message = f"{response.status} {response.reason}: {response.text[:200]}"
        if not code and not response.request_id:
            message = _not_a_gateway_message(response)
    payload = error.get("payload")
    return GatewayError(
        response.status,
        code,
        message,
        errors=tuple(error.get("errors", ())),
        payload=payload if isinstance(payload, Mapping) else None,
        request_id=response.request_id,
        retry_after_s=retry_after_seconds(response.headers.get("Retry-After", "")),
    )


def _not_a_gateway_message(response: "Response") -> str:
    return (
        f"the server is not a gateway: its response ({response.status} {response.reason}) has no Gateway-Request-Id; "
        f"check base_url, and the reverse proxy: the gateway behind it may be down. It returned: {response.text[:200]}"
    )


def retry_after_seconds(retry_after: str) -> float | None:
    """Return the seconds in a ``Retry-After`` field, which is a number or a date (RFC 9110 §10.2.3).

    Return None for any other text.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date - datetime.now(date.tzinfo)).total_seconds())


# ── The gateway's base URL and secret key, and the message if the gateway cannot be reached.


_NOT_SET: Final = "is None; check that the environment variable is set"


def checked_base_url(base_url: str | None) -> str:
    """Return the gateway's base URL without slashes at its end. Raises ValueError if the URL is not valid, or if it
    ends with ``/proxy``, which the client adds."""
    if base_url is None:
        raise ValueError(f"base_url {_NOT_SET}")
    try:
        parts = urlsplit(base_url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(
            f"'{base_url}' is not the URL of a gateway; write it with http:// or https://, as in http://127.0.0.1:3003"
        )
    url = base_url.rstrip("/")
    if url.endswith("/proxy"):
        raise ValueError(f"'{base_url}' ends with /proxy, which the client adds; write '{url[: -len('/proxy')]}'")
    return url


def checked_key(secret_key: str | None) -> str:
    """Return the secret key. Raises ValueError if the text cannot be a key; the message does not contain the text."""
    if secret_key is None:
        raise ValueError(f"secret_key {_NOT_SET}")
    if not secret_key.strip():
        raise ValueError("secret_key is empty")
    if secret_key.endswith(("\n", "\r")):
        raise ValueError("secret_key ends with a line break; remove it with .strip()")
    if not secret_key.isprintable():
        raise ValueError("secret_key contains a line break or another control character; copy the key again")
    return secret_key


def unreachable_error(base_url: str, fault: Exception) -> Unreachable:
    """Return the Unreachable error for `fault`, an exception of aiohttp."""
    cause, step = _cause_and_step(fault)
    return Unreachable(f"no response from the gateway at {base_url}: {cause}; {step}", cause)


def _cause_and_step(fault: Exception) -> tuple[str, str]:
    """Return two texts: the cause of `fault`, and what the caller should do next."""
    check_it_runs = "check that it runs (`gateway serve`, or `gateway demo`) and that this is its URL"
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return f"there is no host with the name '{fault.host}'", "check the URL"
    if isinstance(fault, aiohttp.ClientSSLError | ssl.SSLError):
        return _cause_text(
            fault
        ), "check the scheme (http or https) and that this machine trusts the gateway's certificate"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return _cause_text(fault.os_error), check_it_runs
    if isinstance(fault, aiohttp.ServerDisconnectedError):
        return "it closed the connection without a response", "send the call again if it may be sent twice"
    if isinstance(fault, aiohttp.ConnectionTimeoutError):
        return "the connection was not accepted in time (connect_s)", check_it_runs
    if isinstance(fault, TimeoutError):
        return "nothing was received in time (silence_s)", "increase silence_s, or look into the gateway's log"
    if isinstance(fault, aiohttp.ClientResponseError):
        first_line = fault.message.partition("\n")[0].rstrip(": ")  # the following lines quote the received bytes
        return f"it sent something other than a valid HTTP response ({first_line})", "check host and port"
    return _cause_text(fault), check_it_runs


def _cause_text(fault: BaseException) -> str:
    """Return the cause as text.

    The full text of an OSError is not used, because it can contain several addresses as Python tuples.
    """
    if isinstance(fault, aiohttp.ClientConnectorError):
        fault = fault.os_error
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({fault.verify_message})"
    if isinstance(fault, ssl.SSLError):
        return f"the TLS handshake failed ({fault.reason or 'unknown cause'})"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens at this address"
    if isinstance(fault, OSError) and fault.strerror and "Connect call failed" not in fault.strerror:
        return fault.strerror.lower()
    return (
        "nothing listens at this address" if "Connect call failed" in str(fault) else str(fault) or type(fault).__name__
    )
