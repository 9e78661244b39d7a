"""Texts of forms: titles in sentence case, and sentences that say where to find a value."""

import re
from typing import Any, Final

_ALWAYS_SO: Final = {
    "api": "API", "id": "ID", "url": "URL", "uri": "URI", "uuid": "UUID", "oauth": "OAuth", "openid": "OpenID",
    "rest": "REST", "arn": "ARN", "jwt": "JWT", "aws": "AWS", "snowflake": "Snowflake", "billbee": "Billbee",
    "avalara": "Avalara", "databricks": "Databricks",
}  # fmt: skip
_PLACEHOLDER = r"\$\{connectionConfig\.%s\}"
_URL_FIELDS: Final = ("authorization_url", "token_url")


def title_case(title: str) -> str:
    """Return a title in sentence case: ``Client Private Key`` ▸ ``Client private key``, ``Api key id`` ▸ ``API key
    ID``.
    """
    words = [_ALWAYS_SO.get(word.lower(), word.lower()) for word in title.split()]
    first = words[0] if words[0] in _ALWAYS_SO.values() else words[0].capitalize()
    return " ".join([first, *words[1:]])


def urls(facts: dict[str, Any]) -> list[str]:
    """Return every URL of the entry that can contain a setting."""
    found = [facts[key] for key in _URL_FIELDS if key in facts] + [facts["proxy"]["base_url"]]
    return found + [form for forms in facts.get("alternatives", {}).values() for form in forms]


def hosts_with(facts: dict[str, Any], name: str) -> list[str]:
    """Return the authorities of the URLs in which the setting `name` occurs."""
    authorities = [url.partition("://")[2].partition("/")[0] for url in urls(facts)]
    return [host for host in authorities if re.search(_PLACEHOLDER % re.escape(name), host)]


def suffix_of(facts: dict[str, Any], name: str) -> str | None:
    """Return the part of the host after the setting, such as ``.example.com``.

    None if a host does not begin with the setting, or if the hosts differ.
    """
    begins = re.compile(_PLACEHOLDER % re.escape(name) + r"(?P<rest>\.[a-z0-9.-]+)")
    rests = {found["rest"] for host in hosts_with(facts, name) if (found := begins.fullmatch(host))}
    return rests.pop() if len(rests) == 1 else None


def description(facts: dict[str, Any], name: str, title: str, form: dict[str, Any]) -> str:
    """Return a sentence that says where the end user finds the value."""
    who = facts["display_name"].partition(" (")[0]
    if any("login.microsoftonline.com" in url for url in urls(facts)) and name in {"tenantId", "tenant"}:
        return "Directory (tenant) ID, on the overview page of the app registration in Microsoft Entra."
    if suffix := suffix_of(facts, name):
        return f"The part of your {who} address before {suffix}."
    if form.get("format") == "hostname":
        return f"Host name of your {who} account, without https://."
    if form.get("format") == "uri":
        return f"Address of your {who} account, with https://."
    if "enum" in form and name in {"region", "extension", "subdomain", "pod", "realm", "domain", "hostname"}:
        return f"Where your {who} account is kept."
    if "enum" in form:
        return f"Which {title.lower()} of {who} to call."
    return f"{title} of your {who} account."
