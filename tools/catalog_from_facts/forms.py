"""Converts the settings and credentials of the facts to the forms of an entry."""

from typing import Any, Final

from gateway.catalog.provider_parts import title_from
from tools.catalog_from_facts.words import description, hosts_with, suffix_of, title_case

Form = dict[str, Any]

# The script that wrote the facts generated these patterns. Entries use a shorter pattern with the same meaning.
_HOST: Final = "^[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9](:[0-9]{1,5})?$"
_LABEL: Final = "^[A-Za-z0-9][A-Za-z0-9_-]*$"
_FORMATS: Final = {
    _HOST: "hostname",
    "^https://[^\\s/]+(/[^\\s]*)?$": "uri",
    "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$": "uuid",
    "^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$": "email",
}
_NO_EXAMPLE: Final = frozenset({"example"})  # placeholders that carry no information

_BLANK: Final = "(leave blank)"
_NAMES: Final = {"username": "User name", "password": "Password"}


def settings(facts: dict[str, Any]) -> dict[str, Form]:
    """Return the entry's `connection_config`, by the name of the setting."""
    return {one["name"]: _setting(one, facts) for one in facts.get("connection_configuration", ())}


def _setting(one: dict[str, Any], facts: dict[str, Any]) -> Form:
    name, title = one["name"], title_case(one["title"])
    form: Form = {}
    if title != title_from(name):
        form["title"] = title
    form |= _rule(one, in_host=bool(hosts_with(facts, name)))
    if one.get("example") and one["example"] not in _NO_EXAMPLE and "enum" not in one:
        form["example"] = one["example"]
    if "default" in one:
        form["default_value"] = one["default"]
    asked = not (one.get("automated") or one.get("hidden"))
    if asked and (suffix := suffix_of(facts, name)) and "enum" not in one:
        form["suffix"] = suffix
    if not one["required"] and asked and "default" not in one:
        form["optional"] = True
    form |= {key: True for key in ("secret", "hidden", "automated") if one.get(key)}
    if asked:
        form = {"description": description(facts, name, title, form), **form}
    return {key: form[key] for key in ("title", "description", *form) if key in form}


def _rule(one: dict[str, Any], *, in_host: bool) -> Form:
    if "enum" in one:
        return {"enum": one["enum"]}
    pattern = one.get("pattern")
    if pattern in _FORMATS:
        return {"format": _FORMATS[pattern]}
    if pattern == _LABEL and in_host:
        return {"pattern": "[A-Za-z0-9][A-Za-z0-9-]*"}  # the characters allowed in a DNS label
    return {"pattern": pattern.removeprefix("^").removesuffix("$")} if pattern else {}


def credentials(facts: dict[str, Any]) -> dict[str, Form]:
    """Return the entry's `credentials`, by the name of the field. A field that always stays blank is included, but
    hidden.
    """
    found = {one["name"]: _field(one, facts) for one in facts.get("credentials", ())}
    if facts["auth_mode"] == "BASIC" and not found:
        found = {
            name: _field({"name": name, "title": title, "secret": name == "password"}, facts)
            for name, title in _NAMES.items()
        }
    if facts["auth_mode"] == "BASIC":
        found = {name: found[name] if name in found else _blank(name) for name in _NAMES}
    if facts["auth_mode"] == "API_KEY" and not found:
        found = {"apiKey": {"secret": True}}
    return found


def _field(one: dict[str, Any], facts: dict[str, Any]) -> Form:
    name, title = one["name"], one["title"]
    if title == _BLANK:
        return _blank(name)
    if title.startswith('The word "'):
        return {"title": _NAMES[name], "default_value": title.split('"')[1], "hidden": True}
    if title == "(any text)":
        return {"default_value": "X", "hidden": True}
    form: Form = {}
    if (shown := title_case(title)) != title_from(name):
        form["title"] = shown
    if not (one.get("secret") or one.get("hidden")):
        form["description"] = f"{shown} of your {facts['display_name'].partition(' (')[0]} account."
    if "default" in one:
        form["default_value"] = one["default"]
    if one.get("required") is False:
        form["optional"] = True
    return form | {key: True for key in ("secret", "hidden") if one.get(key)}


def _blank(name: str) -> Form:
    return {"title": _NAMES[name], "optional": True, "hidden": True}
