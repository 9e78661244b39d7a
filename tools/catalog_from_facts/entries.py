"""Converts the facts about one provider to its catalog entry, field by field.

If the facts do not contain a field, the entry does not have it: nothing is guessed.
"""

from typing import Any, Final

from tools.catalog_from_facts.forms import credentials, settings

Facts = dict[str, Any]
Entry = dict[str, Any]

_AS_THEY_ARE: Final = (
    "display_name", "categories", "auth_mode", "family", "authorization_url", "token_url", "refresh_url",
    "revocation_url", "registration_url", "installation_token_url", "signature_method", "client_registration",
    "default_scopes", "available_scopes", "authorization_code_param_in_callback", "authorization_url_fragment",
    "expires_in_unit", "alternatives", "post_connection_script", "webhook_routing_script",
)  # fmt: skip
_RENAMED: Final = {
    "request_token_url": "request_url",
    "alternate_access_token_path": "alternate_access_token_response_path",
    "token_response_metadata": "token_response_metadata",
    "callback_metadata": "redirect_uri_metadata",
    "requires_client_certificate": "require_client_certificate",
    "webhook_secret_set_by_user": "webhook_user_defined_secret",
}
_PARAMETERS: Final = ("authorization_params", "request_params", "token_params", "refresh_params")
# General knowledge does not confirm a value, because nobody can check it.
_NO_OUTSIDE_SOURCE: Final = frozenset({"curated", "requirement"})


def entry_of(facts: Facts) -> Entry:
    """Return the entry for `facts` (one object of providers.json)."""
    entry: Entry = {key: facts[key] for key in _AS_THEY_ARE if key in facts}
    entry |= {ours: facts[theirs] for theirs, ours in _RENAMED.items() if theirs in facts}
    entry |= {key: _texts(facts[key]) for key in _PARAMETERS if key in facts}
    # A derived URL was computed and not found in a source, so its page may not exist.
    entry |= {key: facts[key] for key in ("docs", "homepage") if key in facts and key not in facts.get("derived", ())}
    entry |= _token_requests(facts)
    if "jwt" in facts or "client_assertion" in facts:
        entry["jwt"] = _jwt(facts.get("jwt") or facts["client_assertion"])
    if "signature" in facts:
        entry["signature"] = {"scheme": "wsse", "lifetime_s": facts["signature"]["lifetime_seconds"]}
    if "request_signing" in facts:
        entry["request_signing"] = facts["request_signing"]
    if "refresh" in facts:
        entry["refresh"] = _rename_seconds(facts["refresh"], "access_token_lifetime")
    if forms := settings(facts):
        entry["connection_config"] = forms
    if forms := credentials(facts):
        entry["credentials"] = forms
    entry["proxy"] = _proxy(facts["proxy"])
    if "webhook_signature" in facts:
        entry["webhook_signature"] = _rename_seconds(facts["webhook_signature"], "tolerance")
    if "account" in facts:
        entry["account"] = facts["account"]
    outside = set(facts["sources"]) - _NO_OUTSIDE_SOURCE
    sourced = outside and facts.get("confidence", "sourced") == "sourced"
    entry |= {"provenance": "sourced" if sourced else "unconfirmed", "sources": facts["sources"]}
    return entry


def _token_requests(facts: Facts) -> Entry:
    """Return the fields of the entry that say how tokens are requested."""
    made: Entry = {}
    if facts.get("pkce") is False:
        made["disable_pkce"] = True
    if facts.get("scope_separator", " ") not in {" ", "+"}:  # a plus means a space, as in a URL-encoded form
        made["scope_separator"] = facts["scope_separator"]
    if facts.get("token_request_auth_method", "body") != "body":
        made["token_request_auth_method"] = facts["token_request_auth_method"]
    if renames := facts.get("authorization_param_renames"):
        made["authorization_param_renames"] = {k.removesuffix("="): v.removesuffix("=") for k, v in renames.items()}
    asked = facts.get("token_request", {})
    if facts.get("token_request_format", asked.get("format", "form")) != "form":
        made["body_format"] = facts.get("token_request_format", asked.get("format"))
    # The encoding of the body sets its own content type, so the entry must not set one.
    headers = {name: text for name, text in asked.get("headers", {}).items() if name != "content-type"}
    if headers:
        made["token_headers"] = headers
    if asked.get("method", "POST") != "POST":
        made["token_request_method"] = asked["method"]
    if "expires_in_seconds" in asked:
        made["token_ttl"] = asked["expires_in_seconds"]
    if response := _token_response(asked):
        made["token_response"] = response
    return made


def _token_response(request_facts: Facts) -> Entry:
    """Return the places of the token response that differ from the OAuth 2.0 standard."""
    usual = {"token_path": "access_token", "expiry_path": "expires_in", "expiry_kind": "duration"}
    return {key: request_facts[key] for key, common in usual.items() if request_facts.get(key, common) != common}


def _jwt(facts: Facts) -> Entry:
    made = {"header": facts["header"], "claims": facts["claims"], "key": facts["key"]}
    return made | {"lifetime_s": facts["lifetime_seconds"]}


def _proxy(facts: Facts) -> Entry:
    made: Entry = {key: facts[key] for key in ("base_url", "path_form", "headers", "query", "body") if facts.get(key)}
    if "decompress" in facts:
        made["decompress"] = facts["decompress"]
    made |= {key: facts[key] for key in ("paginate", "paginate_alternatives") if key in facts}
    if retry := _retry(facts.get("retry", {})):
        made["retry"] = retry
    if "verification" in facts:
        made["verification"] = _verification(facts["verification"])
    return made


def _retry(facts: Facts) -> Entry:
    made = {key: names[0] if len(names) == 1 else names for key, names in facts.items() if key in {"after", "at"}}
    if made.get("after") == "retry-after":
        del made["after"]  # the gateway always uses Retry-After, so the entry need not name it
    if "remaining" in facts:
        made["remaining"] = facts["remaining"]
    if "status_codes" in facts:
        made["error_code"] = [str(code) for code in facts["status_codes"]]
    return made


def _verification(facts: Facts) -> Entry:
    made: Entry = {"method": facts["method"]} if facts["method"] != "GET" else {}
    made["endpoints"] = [facts["endpoint"]]
    if "base_url" in facts:
        made["base_url_override"] = facts["base_url"]
    if "headers" in facts:
        made["headers"] = facts["headers"]
    return made


def _rename_seconds(facts: Facts, what: str) -> Entry:
    """Rename the keys. In entries, the unit seconds is written ``_s``."""
    return {key.replace(f"{what}_seconds", f"{what}_s"): value for key, value in facts.items()}


def _texts(params: Facts) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
