"""Reads an MCP server's metadata: its authorization server (RFC 9728) and that server's endpoints (RFC 8414).

Because a server supplies the URLs, each URL is checked before use. A valid URL is an absolute http or https URL without
placeholders. Egress blocks hosts in private networks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.auth.mode import Dialogue
from gateway.catalog.template import TemplateError
from gateway.catalog.url_template import parse_url_template
from gateway.catalog.value import is_web_url
from gateway.http.scope_challenge import challenges_in
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.provider_call import ProviderCall, Reply

# A protected server responds to a ping with 401. On an unprotected server, a ping has no effect.
PING: Final = json.dumps({"jsonrpc": "2.0", "id": "gateway", "method": "ping"}).encode()
PING_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
DEFAULT_METHODS: Final = ("client_secret_basic",)  # the default if the metadata names no method (RFC 8414 §2)
JSON: Final = {"Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class McpServer:
    """The endpoints and features for authorization at one MCP server. An absent feature is None.

    `resource`: the server's name (RFC 8707). `auth_methods`: the methods of the token endpoint, None if the server has
    no metadata. `reads_documents`: whether the URL of a metadata document is accepted as a client ID.
    """

    resource: str
    authorization_url: str
    token_url: str
    issuer: str | None = None
    registration_url: str | None = None
    revocation_url: str | None = None
    auth_methods: tuple[str, ...] | None = None
    reads_documents: bool = False
    scopes: tuple[str, ...] = field(default=())


def discover_server(url: str) -> Dialogue[McpServer]:
    """Discover how to authorize for the server at `url`. Raises TokenRefused if its metadata is unusable."""
    metadata_url, scopes = yield from _read_challenge(url)
    resource_metadata = yield from _resource(url, metadata_url)
    issuer = next(iter(_text_list(resource_metadata.get("authorization_servers"))), None) or _origin(url)
    metadata = yield from _authorization_server(issuer)
    scopes = scopes or tuple(_text_list(resource_metadata.get("scopes_supported")))
    name = str(resource_metadata.get("resource") or url)
    if metadata is None:  # default endpoints of the MCP specification before RFC 9728
        base = issuer.rstrip("/")
        return McpServer(name, f"{base}/authorize", f"{base}/token", None, f"{base}/register", scopes=scopes)
    endpoints = {key: _checked_url(metadata.get(key)) for key in _ENDPOINTS}
    if not endpoints["authorization_endpoint"] or not endpoints["token_endpoint"]:
        raise TokenRefused("invalid_request", f"the metadata of {issuer} names no authorization and token endpoint")
    challenge_methods = metadata.get("code_challenge_methods_supported")
    if isinstance(challenge_methods, list) and "S256" not in challenge_methods:
        raise TokenRefused("invalid_request", f"{issuer} does not support PKCE with S256")
    methods = metadata.get("token_endpoint_auth_methods_supported")
    return McpServer(
        resource=name,
        authorization_url=endpoints["authorization_endpoint"],
        token_url=endpoints["token_endpoint"],
        issuer=str(metadata["issuer"])
        if metadata.get("authorization_response_iss_parameter_supported") is True
        else None,
        registration_url=endpoints["registration_endpoint"],
        revocation_url=endpoints["revocation_endpoint"],
        auth_methods=tuple(_text_list(methods)) if isinstance(methods, list) else DEFAULT_METHODS,
        reads_documents=metadata.get("client_id_metadata_document_supported") is True,
        scopes=scopes,
    )


_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")


def _read_challenge(url: str) -> Dialogue[tuple[str | None, tuple[str, ...]]]:
    """Call the server without a token; return the URL of its metadata and the scopes it requires (RFC 9728 §5.1)."""
    try:
        reply = yield ProviderCall(url, PING_HEADERS, PING)
    except TokenUnavailable:
        return None, ()
    if reply.status != 401:
        return None, ()
    challenge: dict[str, str] = {}
    for _, params in challenges_in(reply.headers.items()):
        challenge = params | challenge  # the first challenge wins
    return _checked_url(challenge.get("resource_metadata")), tuple(challenge.get("scope", "").split())


def _resource(url: str, metadata_url: str | None) -> Dialogue[Mapping[str, Any]]:
    """Return the metadata of the protected resource at `url` (RFC 9728 §3), or an empty object if there is no metadata.
    `metadata_url`: the URL of the metadata, None if the server named no URL. Raises TokenRefused if the metadata belongs
    to another resource."""
    candidate_urls = [metadata_url] if metadata_url else _well_known(url, "oauth-protected-resource")
    for candidate_url in candidate_urls:
        metadata = yield from _get_json(candidate_url)
        if metadata is None:
            continue
        resource = _checked_url(metadata.get("resource"))
        if resource is None or not _covers(resource, url):
            raise TokenRefused(
                "invalid_request", f"the metadata at {candidate_url} belongs to another resource than {url}"
            )
        return metadata
    return {}


def _authorization_server(issuer: str) -> Dialogue[Mapping[str, Any] | None]:
    """Return the authorization server's metadata (RFC 8414 §3), or None if there is no metadata. The metadata must name
    the requested issuer (§3.3)."""
    if _checked_url(issuer) is None:
        raise TokenRefused("invalid_request", "the metadata names an authorization server that is not a valid URL")
    candidate_urls = [
        *_well_known(issuer, "oauth-authorization-server")[:1],
        *_well_known(issuer, "openid-configuration")[:1],
    ]
    candidate_urls.append(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    for candidate_url in dict.fromkeys(candidate_urls):
        metadata = yield from _get_json(candidate_url)
        if metadata is None:
            continue
        if str(metadata.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
            raise TokenRefused("invalid_request", f"the metadata at {candidate_url} names another issuer than {issuer}")
        return metadata
    return None


def _get_json(url: str) -> Dialogue[Mapping[str, Any] | None]:
    try:
        reply: Reply = yield ProviderCall(url, JSON, None, method="GET")
    except TokenUnavailable:
        return None
    if reply.status != 200:
        return None
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _well_known(url: str, name: str) -> list[str]:
    """Return the well-known URLs to try. The first URL has the path of `url` after the name (both RFCs), the second has
    no path."""
    path = urlsplit(url).path.rstrip("/")
    root = f"{_origin(url)}/.well-known/{name}"
    return [root + path, root] if path else [root]


def _covers(resource: str, url: str) -> bool:
    """Return whether `url` is equal to `resource` or below it."""
    resource, url = resource.rstrip("/"), url.rstrip("/")
    return url == resource or url.startswith(f"{resource}/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _checked_url(value: object) -> str | None:
    """Return `value` if it is an http or https URL without placeholders that would be valid in a catalog entry.
    Otherwise return None."""
    if not isinstance(value, str) or len(value) >= 2048 or not is_web_url(value):
        return None
    try:
        parse_url_template(value)
    except TemplateError:
        return None
    return value


def _text_list(value: object) -> Sequence[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
