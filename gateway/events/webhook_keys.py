"""Fetches the public keys that verify webhooks, from the URL in the provider's entry, and caches them for an hour.

Anybody can send a webhook that names a key, so the requests for keys are limited. They are sent one at a time per key,
at most a few times per minute and integration, and only to URLs that the entry allows.
"""

import asyncio
import hashlib
import json
import re
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import structlog

from gateway import clock
from gateway.catalog.provider_parts import WebhookKeys, WebhookSignature
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.errors import Unavailable
from gateway.scripts.script_context import IncomingWebhook, SignatureRefused
from gateway.scripts.signed_token import JWT, MAX_KEYS, key_id_of, token_of
from gateway.secret import Secret

CACHE_S: Final = 3600.0
RETRY_S: Final = 60.0  # pause before the next request, if a response lacked the key or was a refusal
MAX_CACHED: Final = 256
MAX_REQUESTS_PER_MINUTE: Final = 10  # maximum requests for keys per integration
RESPONSE_BYTES: Final = 64 * 1024
RESPONSE_S: Final = 5.0
RETRY_AFTER_S: Final = 30

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_HOST_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PLACEHOLDER: Final = re.compile(r"\$\{([a-z_]{1,40})\}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A request for public keys. The cache finds the response by `digest`, because the body may contain a secret."""

    method: str
    url: str
    body: bytes | None

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"\0".join((self.method.encode(), self.url.encode(), self.body or b""))).hexdigest()


@dataclass(frozen=True, slots=True)
class FetchedKeys:
    """A provider's public keys for webhooks, as fetched. `at`: when the keys were fetched, in monotonic seconds.
    `keys`: key id ▸ key; a single key without an id has the id ``""``. None: the provider refused the request."""

    at: float
    keys: Mapping[str, str] | None

    def find(self, kid: str) -> Sequence[str]:
        keys = self.keys or {}
        if kid in keys:
            return [keys[kid]]
        return [keys[""]] if "" in keys else []


class WebhookKeyCache:
    """The process's cache of providers' public keys, shared by all integrations."""

    def __init__(self) -> None:
        self._cached: OrderedDict[str, FetchedKeys] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[FetchedKeys]] = {}
        self._requests: dict[tuple[str, bool], deque[float]] = {}

    async def keys_for(
        self,
        egress: Egress,
        integration: str,
        signature_format: WebhookSignature | None,
        message: IncomingWebhook,
        secrets: Sequence[Secret],
    ) -> Sequence[str]:
        """Return the keys with which `message` could be signed; empty if the entry has no URL for keys.

        Raises SignatureRefused if the provider has no such key, and Unavailable ``busy`` if the keys cannot be fetched
        now.
        """
        if signature_format is None or signature_format.keys is None or not secrets:
            return ()
        kid = key_id_of(token_of(message, signature_format), signature_format) if signature_format.scheme == JWT else ""
        keys: Sequence[str] = ()
        for secret in secrets if signature_format.secret_fields else secrets[:1]:
            request = key_request(signature_format.keys, message, kid, signature_format.secret_fields, secret)
            keys = (await self._cached_or_fetched(egress, integration, request, kid)).find(kid)
            if keys:
                break
        if not keys:
            raise SignatureRefused("the provider has no such key")
        return keys[:MAX_KEYS]

    async def _cached_or_fetched(self, egress: Egress, integration: str, request: KeyRequest, kid: str) -> FetchedKeys:
        digest = request.digest
        cached_keys = self._cached.get(digest)
        if cached_keys is not None and clock.monotonic() - cached_keys.at < (
            CACHE_S if cached_keys.find(kid) else RETRY_S
        ):
            self._cached.move_to_end(digest)
            return cached_keys
        task = self._fetching.get(digest)
        if task is None:
            self._count_request(integration, is_known=cached_keys is not None and bool(cached_keys.find(kid)))
            task = asyncio.create_task(_fetch(egress, request))
            self._fetching[digest] = task
            task.add_done_callback(lambda finished: self._store_result(digest, finished))
        try:
            return await asyncio.shield(task)
        except EgressError as fault:
            log.warning("webhook_keys_unavailable", integration=integration, reason=fault.message)
            raise _retry_later("The provider's keys that verify this webhook cannot be fetched") from fault

    def _store_result(self, digest: str, task: "asyncio.Task[FetchedKeys]") -> None:
        self._fetching.pop(digest, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._cached[digest] = task.result()
        self._cached.move_to_end(digest)
        while len(self._cached) > MAX_CACHED:
            # Remove a response without keys first, because made-up key ids cause such responses.
            del self._cached[
                next((key for key, fetched in self._cached.items() if not fetched.keys), next(iter(self._cached)))
            ]

    def _count_request(self, integration: str, *, is_known: bool) -> None:
        """Count a request for keys against the limit. `is_known`: whether an earlier response had the key. Requests for
        known keys have their own limit, so that made-up key ids cannot block these requests.

        Raises Unavailable.
        """
        now = clock.monotonic()
        request_times = self._requests.setdefault((integration, is_known), deque())
        while request_times and now - request_times[0] >= RETRY_S:
            request_times.popleft()
        if len(request_times) >= MAX_REQUESTS_PER_MINUTE:
            raise _retry_later("Too many webhooks name keys that are not known yet")
        request_times.append(now)


def _retry_later(reason: str) -> Unavailable:
    return Unavailable("busy", f"{reason}. Send it again in {RETRY_AFTER_S} s.", retry_after_s=RETRY_AFTER_S)


def key_request(
    endpoint: WebhookKeys, message: IncomingWebhook, kid: str, secret_fields: Sequence[str], secret: Secret
) -> KeyRequest:
    """Build the request for the keys of `message`. Raises SignatureRefused for a URL that the entry does not allow."""
    if endpoint.url_header is not None:
        return KeyRequest(endpoint.method, _url_in_header(endpoint, message), None)
    parts = secret.reveal().split(":", max(0, len(secret_fields) - 1)) if secret_fields else []
    if len(parts) != len(secret_fields):
        raise SignatureRefused("the webhook_secret lacks a part", no_secret=True)
    values = {**dict(zip(secret_fields, parts, strict=True)), "kid": kid}
    scheme, separator, path = (endpoint.url or "").partition("://")
    host, slash, path_below_host = path.partition("/")
    for name in _PLACEHOLDER.findall(host):
        if not _HOST_LABEL.fullmatch(values.get(name, "")):
            raise SignatureRefused("the webhook_secret has a part that cannot be part of a host name", no_secret=True)
    for name in _PLACEHOLDER.findall(path_below_host):
        text = values.get(name, "")
        if not text.strip(".") or not _NAME.fullmatch(text.replace(".", "-")):
            raise SignatureRefused("the token's key id cannot be part of a URL")
    url = scheme + separator + _fill(host, values) + slash + _fill(path_below_host, values)
    body = None
    if endpoint.body is not None:
        body = json.dumps({name: _fill(text, values) for name, text in endpoint.body.items()}).encode()
    return KeyRequest(endpoint.method, url, body)


def _url_in_header(endpoint: WebhookKeys, message: IncomingWebhook) -> str:
    url = message.headers.get((endpoint.url_header or "").lower(), "").strip()
    if not any(url.startswith(prefix) and _NAME.fullmatch(url[len(prefix) :]) for prefix in endpoint.url_prefixes):
        raise SignatureRefused("the URL of its key is not one of the provider's")
    return url


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], ""), text)


async def _fetch(egress: Egress, request: KeyRequest) -> FetchedKeys:
    headers = {"Accept": "application/json, */*"} | (
        {} if request.body is None else {"Content-Type": "application/json"}
    )
    response = await egress.fetch(
        request.method,
        request.url,
        headers=headers,
        body=request.body,
        limit_bytes=RESPONSE_BYTES,
        timeout_s=RESPONSE_S,
    )
    if response.status == 429 or response.status >= 500:
        raise EgressError("unreachable", f"The provider responded to a request for its keys with {response.status}.")
    return FetchedKeys(clock.monotonic(), keys_in(response.body) if 200 <= response.status < 300 else None)


def keys_in(body: bytes) -> Mapping[str, str]:
    """Return the public keys in a response, by key id. `body`: a key set, an object with one key under ``key``, or a
    certificate or key in PEM."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("-----BEGIN"):
        return {"": text}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    key_list: Any = document.get("keys") if isinstance(document, Mapping) else None
    single_key = document.get("key") if isinstance(document, Mapping) else None
    jwks = key_list if isinstance(key_list, list) else [single_key]
    return {str(jwk["kid"]): json.dumps(jwk) for jwk in jwks[:MAX_CACHED] if _is_usable(jwk)}


def _is_usable(jwk: Any) -> TypeGuard[Mapping[str, Any]]:
    return (
        isinstance(jwk, Mapping)
        and isinstance(jwk.get("kid"), str)
        and jwk.get("use", "sig") == "sig"
        and jwk.get("expired_at") is None
    )
