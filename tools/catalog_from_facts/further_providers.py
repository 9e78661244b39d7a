"""Converts ``new-providers.json`` to the format of ``providers.json``, so that one script generates all entries.

It uses facts that a source states or that a public repository contains. It ignores facts that no source confirms
(confidence ``knowledge``).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Facts = dict[str, Any]

_SEEN: Final = frozenset({"sourced", "host-sourced", "address-in-public-code"})
_AS_THEY_ARE: Final = (
    "display_name", "auth_mode", "categories", "docs", "family", "authorization_url", "token_url",
    "token_request_auth_method", "scope_separator", "authorization_params", "token_request_format",
)  # fmt: skip
# Label in new-providers.json ▸ label of the same source in providers.json.
LABELS: Final = {"knowledge": "curated", "amp": "amp-labs", "aspnet": "aspnet-oauth"}
# Name of an input in the source ▸ its name in the catalog. Other inputs are named after their place in the URL.
_NAMES: Final = {
    "host": "hostname", "talkdesk_api_domain": "apiDomain", "talkdesk_token_domain": "tokenDomain",
    "board_token": "boardToken", "project_id": "projectId", "company": "companyId", "talkdesk.workspace": "accountName",
    "braze.workspace": "instance", "marketo.workspace": "munchkinId", "outplay.workspace": "location",
}  # fmt: skip
_LABEL: Final = "^[A-Za-z0-9][A-Za-z0-9_-]*$"
_HOST: Final = "^[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9](:[0-9]{1,5})?$"
_URI: Final = "^https://[^\\s/]+(/[^\\s]*)?$"
_ANYTHING: Final = "^[A-Za-z0-9][A-Za-z0-9._-]*$"
_SETTING: Final = re.compile(r"\$\{connectionConfig\.([A-Za-z0-9_]+)\}")


def further_facts(document: Mapping[str, Any]) -> list[Facts]:
    """Return the facts in `document` (new-providers.json) that a source confirms, by provider, in the format of
    providers.json.
    """
    seen = ((name, fact) for name, fact in document["facts"].items() if fact["confidence"] in _SEEN)
    return [_common_facts(name, fact) for name, fact in seen]


def _common_facts(name: str, fact: Mapping[str, Any]) -> Facts:
    rename = {setting: _our_name(name, setting, fact) for setting in _setting_names(fact)}
    made: Facts = {"name": name} | {key: fact[key] for key in _AS_THEY_ARE if key in fact}
    for key in ("authorization_url", "token_url"):
        if key in fact:
            made[key] = _rename_settings(fact[key], rename)
    base = _rename_settings(fact["base_url"], rename)
    made["proxy"] = {"base_url": base, "headers": {}, "query": {}}
    _place(made, fact, rename)
    if settings := list(_settings(fact, rename)):
        made["connection_configuration"] = settings
    if verification := fact.get("verification"):
        url = _rename_settings(verification["address"], rename)
        made["proxy"]["verification"] = {"method": verification["method"], **_endpoint_below(url, base)}
        account = verification.get("account", {})
        if "id" in account:
            made["account"] = {"endpoint": url.removeprefix(base), **account}
    refresh = {key: value for key, value in fact.get("refresh", {}).items() if key != "confidence"}
    if "access_token_lifetime_s" in refresh:
        refresh["access_token_lifetime_seconds"] = refresh.pop("access_token_lifetime_s")
    if refresh:
        made["refresh"] = refresh
    if "revocation" in fact:
        made["revocation_url"] = _rename_settings(fact["revocation"]["address"], rename)
    made["sources"] = sorted({LABELS.get(source["id"], source["id"]) for source in fact["sources"]})
    made["confidence"] = fact["confidence"]
    return made


def _place(made: Facts, fact: Mapping[str, Any], rename: Mapping[str, str]) -> None:
    """Add the place of the credential, and the other header fields."""
    place, basic = fact.get("placement") or {}, made["auth_mode"] == "BASIC"
    proxy = made["proxy"]
    value = "${apiKey}" if made["auth_mode"] == "API_KEY" else "${accessToken}"
    if basic:
        labels = fact.get("credential_labels", place)
        titles = {"username": labels.get("username", "user name"), "password": labels.get("password", "password")}
        made["credentials"] = list(_basic(titles))
    elif place.get("in") == "query":
        proxy["query"][place["name"]] = value
    elif "name" in place:
        proxy["headers"][place["name"].lower()] = place.get("prefix", "") + value
    proxy["headers"] |= {name.lower(): _rename_settings(text, rename) for name, text in fact.get("headers", {}).items()}


def _basic(titles: Mapping[str, str]) -> Iterator[Facts]:
    for field, title in titles.items():
        if title == "empty":
            shown = "(leave blank)"
        elif title.startswith("any text"):
            shown = "(any text)"
        else:
            shown = title[:1].upper() + title[1:]
        secret = any(word in title.lower() for word in ("key", "password", "secret", "token")) and "ID" not in title
        yield {"name": field, "title": shown, "secret": secret}


def _endpoint_below(url: str, base: str) -> Facts:
    if url.startswith("/"):
        return {"endpoint": url}
    if url.startswith(base + "/"):
        return {"endpoint": url.removeprefix(base)}
    origin = re.match(r"https://[^/]+", url)
    if origin is None:
        raise ValueError(f"not a URL: {url}")
    return {"endpoint": url.removeprefix(origin[0]), "base_url": origin[0]}


# ── Settings.


def _urls(fact: Mapping[str, Any]) -> list[str]:
    return [fact[key] for key in ("base_url", "authorization_url", "token_url") if key in fact]


def _setting_names(fact: Mapping[str, Any]) -> list[str]:
    named = [setting["name"] for setting in fact.get("settings", ())]
    return list(dict.fromkeys(named + [name for text in _urls(fact) for name in _SETTING.findall(text)]))


def _our_name(provider: str, setting: str, fact: Mapping[str, Any]) -> str:
    if (known := _NAMES.get(f"{provider}.{setting}") or _NAMES.get(setting)) is not None:
        return known
    if setting != "workspace":
        return setting
    return {"label": "subdomain", "host": "hostname", "url": "instanceUrl"}.get(_kind(setting, fact), "tenant")


def _kind(setting: str, fact: Mapping[str, Any]) -> str:
    """Return how the setting is used in the URLs: as ``label``, as ``host``, as the whole ``url``, or ``other``."""
    whole = "${connectionConfig." + setting + "}"
    for text in _urls(fact):
        host = text.partition("://")[2].partition("/")[0]
        if text.startswith(whole):
            return "url"
        if host.partition(":")[0] == whole:
            return "host"
        if whole in host:
            return "host" if host.endswith(whole) else "label"
    return "other"


def _settings(fact: Mapping[str, Any], rename: Mapping[str, str]) -> Iterator[Facts]:
    said = {setting["name"]: setting for setting in fact.get("settings", ())}
    for name in _setting_names(fact):
        setting, kind = said.get(name, {}), _kind(name, fact)
        made: Facts = {"name": rename[name], "title": setting.get("title") or _title(rename[name]), "required": True}
        made |= {key: setting[key] for key in ("enum", "default", "secret") if key in setting}
        if "enum" not in made:
            made["pattern"] = {"label": _LABEL, "host": _HOST, "url": _URI}.get(kind, _ANYTHING)
            made["example"] = {"label": "acme", "host": "acme.example.com", "url": "https://acme.example.com"}.get(kind)
        yield {key: value for key, value in made.items() if value is not None}


def _title(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).capitalize()


def _rename_settings(text: str, rename: Mapping[str, str]) -> str:
    return _SETTING.sub(lambda found: "${connectionConfig." + rename.get(found[1], found[1]) + "}", text)
