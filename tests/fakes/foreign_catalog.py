"""A catalog in the format of public catalogs (one mapping with an entry per name), generated from the shipped entries.

The documentation of this format defines the field names. Some entries get a change from `QUIRKS`. Each quirk uses a
feature that the gateway's format expresses differently or not at all. Each quirk names the field that the
conversion must report as lost, or None.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.catalog.provider import Provider

Entry = dict[str, Any]

SAME: Final = (
    "display_name", "categories", "docs", "docs_connect", "setup_guide_url", "auth_mode", "authorization_url", "token_url",
    "authorization_params", "authorization_url_fragment", "authorization_code_param_in_callback", "redirect_uri_metadata",
    "disable_pkce", "scope_separator", "default_scopes", "available_scopes", "request_url", "signature_method",
    "client_registration", "registration_url", "token_params", "token_headers", "token_request_method", "body_format",
    "token_request_auth_method", "alternate_access_token_response_path", "expires_in_unit", "token_expiration_buffer",
    "token_response_metadata", "require_client_certificate", "refresh_url", "refresh_params", "post_connection_script",
    "webhook_routing_script", "connection_configuration", "webhook_user_defined_secret",
)  # fmt: skip
FORMS: Final = ("connection_config", "credentials", "assertion_option")
PROXY: Final = ("base_url", "headers", "query", "body", "decompress", "paginate", "retry", "verification")
CAMEL: Final = {"jira_post_connection": "jiraPostConnection", "jira_webhook_routing": "jiraWebhookRouting"}


def foreign(provider: Provider) -> Entry:
    """Return `provider` in the format of public catalogs, as far as this format can express the provider."""
    entry = provider.model_dump(exclude_unset=True, exclude_none=True)
    out: Entry = {key: entry[key] for key in SAME if key in entry}
    for key in ("post_connection_script", "webhook_routing_script"):
        if key in out:
            out[key] = CAMEL[out[key]]
    for key in FORMS:
        if entry.get(key):
            out[key] = {name: _field(setting, index) for index, (name, setting) in enumerate(entry[key].items())}
    out["proxy"] = {key: entry["proxy"][key] for key in PROXY if key in entry["proxy"]}
    _write_as_fallbacks(out, entry.get("alternatives", {}))
    _tokens(out, entry)
    return out


def _field(setting: Mapping[str, Any], order: int) -> Entry:
    ours = {"any_host"}
    field = {"type": "string", **{key: value for key, value in setting.items() if key not in ours}, "order": order}
    if field.get("optional"):
        field["optional"] = "true"
    return field


def _write_as_fallbacks(out: Entry, alternatives: Mapping[str, list[str]]) -> None:
    for key, forms in alternatives.items():
        holder, name = (out["proxy"], "base_url") if key == "proxy.base_url" else (out, key)
        if name in holder:
            holder[name] = " || ".join([*forms, holder[name]])


def _tokens(out: Entry, entry: Mapping[str, Any]) -> None:
    if response := entry.get("token_response"):
        names = {"token_path": "token", "refresh_token_path": "refresh_token", "expiry_path": "token_expiration"}
        out["token_response"] = {names[key]: value for key, value in response.items() if key in names}
        kinds = {"duration": "expireIn", "timestamp": "expireAt"}
        if "expiry_path" in response:
            kind = kinds[response.get("expiry_kind", "duration")]
            out["token_response"]["token_expiration_strategy"] = kind
    if body := entry.get("token_body"):
        out["token_params"] = body
    if ttl := entry.get("token_ttl"):
        out["token_expires_in_ms"] = ttl * 1000
    if jwt := entry.get("jwt"):
        out["token"] = {"signing_key": jwt["key"], "expires_in_ms": jwt.get("lifetime_s", 300) * 1000}
        out["token"] |= {"header": jwt.get("header", {}), "payload": jwt.get("claims", {})}
        if "key_encoding" in jwt:
            out["token"]["secret_encoding"] = jwt["key_encoding"]
    if "signature" in entry:
        out["signature"] = {"protocol": "WSSE"}
        out["token_expires_in_ms"] = entry["signature"].get("lifetime_s", 300) * 1000
    if steps := entry.get("additional_steps"):
        names = {
            "url": "token_url",
            "method": "token_request_method",
            "params": "token_params",
            "headers": "token_headers",
        }
        out["additional_steps"] = [
            {names.get(key, key): value for key, value in step.items() if key != "body"}
            | ({"token_params": step["body"]} if "body" in step else {})
            for step in steps
        ]
    if "installation_token_url" in entry:
        out["token_url"] = {"OAUTH2": entry["token_url"], "APP": entry["installation_token_url"]}


def _put(entry: Entry, *path: str, value: Any) -> None:
    for step in path[:-1]:
        entry = entry.setdefault(step, {})
    entry[path[-1]] = value


QUIRKS: Final[tuple[tuple[str | None, Callable[[Entry], None]], ...]] = (
    ("integration_config", lambda e: _put(e, "integration_config", value={"appId": {"title": "App"}})),
    ("authorization_url_skip_empty", lambda e: _put(e, "authorization_url_skip_empty", value=True)),
    ("proxy.retry.in_body", lambda e: _put(e, "proxy", "retry", "in_body", value={"path": "e", "value": "(\\d+)"})),
    ("proxy.forward_headers_on_redirect", lambda e: _put(e, "proxy", "forward_headers_on_redirect", value=True)),
    ("post_connection_script", lambda e: _put(e, "post_connection_script", value="somePostConnection")),
    ("webhook_allowed_query_params", lambda e: _put(e, "webhook_allowed_query_params", value=["a"])),
    ("connection_config.extra.warnings", lambda e: _put(e, "connection_config", "extra", value=_WARNED)),
    ("connection_config.bad.pattern", lambda e: _put(e, "connection_config", "bad", value={"pattern": "(?<=a+)b\\p{L}"})),
    ("docs", lambda e: _put(e, "docs", value="not a URL")),
    ("some_day", lambda e: _put(e, "some_day", value={"a": 1})),
    (None, lambda e: _put(e, "proxy", "connection_config", value={"inner": {"title": "I"}})),
    (None, lambda e: _put(e, "authorization_method", value="header")),
    (None, lambda e: _put(e, "proxy", "headers", "x-version", value="${connectionConfig.apiVersion} || v2")),
    (None, lambda e: _put(e, "proxy", "headers", "x-region", value="${connectionConfig.undeclared}")),
    (None, lambda e: _put(e, "disable_pkce", value="true")),
)  # fmt: skip
_WARNED: Final = {"title": "Extra", "warnings": ["beware"], "optional": True}


def foreign_catalog(providers: Mapping[str, Provider]) -> tuple[dict[str, Entry], dict[str, str | None]]:
    """Return all entries, and the field that the conversion must report as lost for each changed entry.

    Every fifth entry is changed by a quirk. Every seventh entry gets an alias.
    """
    entries: dict[str, Entry] = {}
    lost: dict[str, str | None] = {}
    quirks = _quirks_in_a_circle()
    for index, (name, provider) in enumerate(providers.items()):
        entries[name] = foreign(provider)
        if index % 5 == 0:
            expected, put = next(quirks)
            put(entries[name])
            lost[name] = expected
        if index % 7 == 0:
            entries[f"{name}-sandbox"] = {"alias": name, "display_name": f"{provider.display_name} (sandbox)"}
    return entries, lost


def _quirks_in_a_circle() -> Iterator[tuple[str | None, Callable[[Entry], None]]]:
    while True:
        yield from QUIRKS
