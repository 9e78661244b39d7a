"""``GET /providers/{provider}/guide``: how to set up a provider, generated from its entry."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from gateway.catalog.api_operations import ApiOperation, ProviderOperations
from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.evidence import evidence_sentences
from gateway.catalog.hosts import open_secret_urls
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.pagination import is_requested_by_post
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Paginate, RefreshPolicy, Setting, title_from
from gateway.catalog.yaml_file import UnreadableFile
from gateway.errors import NotFound
from gateway.pages.error_page import failure_page
from gateway.pages.guide_steps import steps, visible_settings
from gateway.pages.templates import page
from gateway.runtime import generation_of
from gateway.text import counted

# ── One proxied call that the reader can copy: as a curl command, in Python and in Node.

SECRET_KEY = "<SECRET_KEY>"  # noqa: S105 - a placeholder for people
CONNECTION_ID = "<CONNECTION_ID>"

_CLIENT_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
_PATH_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDER = re.compile(r"\$\{(?:connectionConfig\.|credentials\.)?([\w.-]+)\}")


@dataclass(frozen=True, slots=True)
class SnippetCall:
    """A request to the provider. `path`: the path, which begins with a slash. `body`: a JSON value; None: no body."""

    method: str
    path: str
    body: Any = None


def example_call(provider: Provider, provider_operations: ProviderOperations | None = None) -> SnippetCall:
    """Return a call that shows that a connection works.

    The call is the entry's verification request, else a read operation from `provider_operations` (operations marked as
    starters first), else a GET of an example path.
    """
    verification = provider.proxy.verification
    if verification is not None and verification.base_url_override is None and not isinstance(verification.data, str):
        return SnippetCall(verification.method, _with_placeholders(verification.endpoints[0]), verification.data)
    if provider_operations is not None and (starter := _starter(provider_operations)) is not None:
        return SnippetCall(
            starter.method, _with_placeholders(provider_operations.prefix) + _PATH_PARAMETER.sub(r"<\1>", starter.path)
        )
    path_form = (provider.proxy.path_form or "").partition(", ")[0]
    return SnippetCall(
        "GET", _with_placeholders(path_form) if path_form.startswith("/") and " " not in path_form else "/<endpoint>"
    )


def _starter(provider_operations: ProviderOperations) -> ApiOperation | None:
    """Return the read operation with the fewest values to fill in; None if there is no read operation.

    Operations that the catalog marks as starters come first.
    """
    reads = [
        operation
        for operation in provider_operations.find(risk="read")
        if operation.method == "GET" and not operation.origin and not operation.deprecated
    ]
    return min(reads, key=lambda operation: (not operation.starter, operation.path.count("{")), default=None)


def _operations_of(catalog: Catalog, name: str) -> ProviderOperations | None:
    try:
        return catalog.operations(name)
    except UnreadableFile:
        return None


def _with_placeholders(path: str) -> str:
    """Return `path` with each reference to a setting or credential replaced with a placeholder such as ``<name>``."""
    return _PLACEHOLDER.sub(r"<\1>", path)


def placeholders_in(call: SnippetCall) -> list[str]:
    """Return the names of the placeholders in a call's path. The reader must replace the placeholders."""
    return list(dict.fromkeys(re.findall(r"<([\w.-]+)>", call.path)))


def snippet_headers(key: str) -> dict[str, str]:
    """Return the three headers that every proxied call needs. `key`: the integration's ID."""
    return {
        "Authorization": f"Bearer {SECRET_KEY}",
        "Provider-Config-Key": key,
        "Connection-Id": CONNECTION_ID,
    }


def curl_snippet(url: str, key: str, call: SnippetCall) -> str:
    """Return the call as a curl command with several lines."""
    parts = ["curl" if call.method == "GET" else f"curl -X {call.method}"]
    fields = snippet_headers(key) | ({"Content-Type": "application/json"} if call.body is not None else {})
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in fields.items()]
    if call.body is not None:
        parts.append(f"-d {shlex.quote(json.dumps(call.body))}")
    parts.append(shlex.quote(f"{url}/proxy{call.path}"))
    return " \\\n     ".join(parts)


def python_snippet(url: str, key: str, call: SnippetCall) -> str:
    """Return the call as a Python 3 program that uses the gateway's client."""
    client_arguments = f"{url!r}", f"{SECRET_KEY!r}", f"provider_config_key={key!r}", f"connection_id={CONNECTION_ID!r}"
    body = "" if call.body is None else f", json={call.body!r}"
    method = call.method.lower()
    call_text = f"client.{method}(" if method in _CLIENT_METHODS else f"client.request({call.method!r}, "
    lines = ["from gateway.client import Client  # comes with integration-gateway", "", "with Client("]
    lines += [f"    {text}," for text in client_arguments]
    return "\n".join([*lines, ") as client:", f"    print({call_text}{call.path!r}{body}).json())"])


def node_snippet(url: str, key: str, call: SnippetCall) -> str:
    """Return the call as a JavaScript module for Node 18 or newer."""
    options: dict[str, Any] = {} if call.method == "GET" else {"method": call.method}
    options["headers"] = snippet_headers(key) | ({"Content-Type": "application/json"} if call.body is not None else {})
    text = json.dumps(options, indent=2, ensure_ascii=False)
    if call.body is not None:
        text = (
            text.removesuffix("\n}") + f',\n  "body": JSON.stringify({json.dumps(call.body, ensure_ascii=False)})\n}}'
        )
    target = json.dumps(f"{url}/proxy{call.path}", ensure_ascii=False)
    return f"const response = await fetch({target}, {text});\nconsole.log(response.status, await response.json());"


# ── The behavior that a provider's entry states, in sentences for people.

_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def behavior(provider: Provider, provider_operations: ProviderOperations | None = None) -> list[tuple[str, str]]:
    """Return a title and a sentence for each fact about the provider that the catalog states."""
    sentences = list(_behavior(provider))
    if provider_operations is not None:
        starters = [operation.id for operation in provider_operations.find(starter=True)]
        count = counted(len(provider_operations.operations), "request")
        text = f"{count} of its API in the catalog: GET /providers/{provider.name}/operations."
        sentences.append(("Operations", text + (f" Often used: {', '.join(starters)}." if starters else "")))
    return sentences


def _behavior(provider: Provider) -> Iterator[tuple[str, str]]:
    proxy = provider.proxy
    yield "Requests go to", proxy.base_url
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    has_client = bool(mode.integration_keys) or provider.auth_mode == "MCP_OAUTH2_GENERIC"
    if has_client and (secret_url := next(open_secret_urls(provider), None)):
        yield "The client secret", _client_secret_sentence(secret_url[1])
    if provider.refresh is not None and (text := " ".join(_refresh_sentences(provider.refresh))):
        yield "Tokens", text
    if proxy.paginate is not None:
        yield "Lists", _paging_sentence(proxy.paginate)
    if provider.revocation_url:
        yield "Deleting a connection", "also revokes its tokens at the provider."
    if proxy.verification is not None and not mode.redirects:
        yield "A new credential", "is verified with a request before it is stored."
    if provider.webhook_signature is not None:
        signature = provider.webhook_signature
        place = f"the field {signature.header}" if signature.header else "the body"
        yield "Webhooks", f"are signed in {place} ({signature.scheme})."


def _client_secret_sentence(setting: str) -> str:
    return (
        f"is sent only to hosts in the integration's allowed_hosts, since users choose the host with the setting "
        f"'{setting}'. Without it, users connect as with a public client (PKCE), or with their own client."
    )


def _paging_sentence(paginate: Paginate) -> str:
    parts = (paginate.cursor_name_in_request, paginate.offset_name_in_request, paginate.limit_name_in_request)
    details = ", ".join(part for part in parts if part)
    method_text = f"are paged by {paginate.type}" + (
        " in the body of a POST" if is_requested_by_post(paginate.type, paginate.in_body) else ""
    )
    return method_text + (f": {details}." if details else ".")


def _refresh_sentences(refresh: RefreshPolicy) -> Iterator[str]:
    if refresh.access_token_lifetime_s:
        yield f"Access tokens are valid for about {_duration(refresh.access_token_lifetime_s)}."
    if refresh.rotating:
        yield "Each refresh returns a new refresh token and invalidates the old one."
    if refresh.expires_after_days_unused:
        yield f"A refresh token expires if it is not used for {counted(refresh.expires_after_days_unused, 'day')}."
    if refresh.expires_after_days_owner_inactive:
        yield f"It also expires if its owner is inactive for {counted(refresh.expires_after_days_owner_inactive, 'day')}."
    if refresh.expires_after_days:
        yield f"After {counted(refresh.expires_after_days, 'day')}, the user must connect again."


def _duration(seconds: int) -> str:
    for size, unit in _UNITS:
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            count = round(seconds / size)
            return counted(count, unit)
    return counted(seconds, "second")


# ── The page ``GET /providers/{provider}/guide``. The page is public, because it contains no secret.

TRUST = {
    "confirmed": "Two independent sources or the vendor's own document confirm the URLs and where the credential goes.",
    "sourced": "At least one source states the URLs and where the credential goes. The provider was not called to verify them.",
    "unconfirmed": "General knowledge, not confirmed: check the URLs before you rely on them.",
}


async def guide(request: web.Request) -> web.Response:
    """Return the guide's page, or a 404 page for a name that is not in the catalog."""
    generation = generation_of(request)
    public_url = generation.public_url
    name = request.match_info["provider"]
    provider = generation.catalog.get(name)
    if provider is None:
        unknown_provider = NotFound(
            "not_found", f"The catalog has no provider '{name}'. `gateway catalog list` lists the providers."
        )
        return failure_page(
            request, unknown_provider, 404, title="There is no such provider", message=unknown_provider.message
        )
    family_provider = generation.catalog.get(provider.family) if provider.family and provider.family != name else None
    if family_provider is not None and family_provider.auth_mode != provider.auth_mode:
        family_provider = None  # the other provider uses another auth mode, so its app cannot be shared
    provider_operations = await asyncio.to_thread(_operations_of, generation.catalog, name)
    call = example_call(provider, provider_operations)
    return page(
        request,
        "guide.html",
        script=True,
        provider=provider,
        provider_json=generation.catalog.provider_json(name, public_url),
        trust=TRUST.get(provider.shown_provenance() or "", "The entry does not state its sources."),
        evidence=evidence_sentences(provider.evidence),
        steps=steps(provider, public_url, family_provider.display_name if family_provider else None),
        settings=visible_settings(provider.connection_config),
        automated=[name for name, setting in provider.connection_config.items() if setting.automated],
        credentials=visible_settings({**_credentials(provider), **provider.assertion_option}),
        behavior=behavior(provider, provider_operations),
        placeholders_in=placeholders_in(call),
        snippets=[
            (title, snippet_of(public_url, provider.name, call))
            for title, snippet_of in (("curl", curl_snippet), ("Python", python_snippet), ("Node", node_snippet))
        ],
    )


def _credentials(provider: Provider) -> dict[str, Setting]:
    """Return the credential fields that the end user types in.

    The fields come from the provider's entry or, if the entry has no such fields, from the entry's auth mode.
    """
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    return provider.credentials or {name: Setting(title=title_from(name)) for name in mode.typed_fields}
