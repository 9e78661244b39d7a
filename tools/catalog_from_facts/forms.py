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
    return {setting["name"]: _setting(setting, facts) for setting in facts.get("connection_configuration", ())}


def _setting(setting: dict[str, Any], facts: dict[str, Any]) -> Form:
    name, title = setting["name"], title_case(setting["title"])
    form: Form = {}
    if title != title_from(name):
        form["title"] = title
    form |= _rule(setting, in_host=bool(hosts_with(facts, name)))
    if setting.get("example") and setting["example"] not in _NO_EXAMPLE and "enum" not in setting:
        form["example"] = setting["example"]
    if "default" in setting:
        form["default_value"] = setting["default"]
    asked = not (setting.get("automated") or setting.get("hidden"))
    if asked and (suffix := suffix_of(facts, name)) and "enum" not in setting:
        form["suffix"] = suffix
    if not setting["required"] and asked and "default" not in setting:
        form["optional"] = True
    form |= {key: True for key in ("secret", "hidden", "automated") if setting.get(key)}
    if asked:
        form = {"description": description(facts, name, title, form), **form}
    return {key: form[key] for key in ("title", "description", *form) if key in form}


def _rule(setting: dict[str, Any], *, in_host: bool) -> Form:
    if "enum" in setting:
        return {"enum": setting["enum"]}
    pattern = setting.get("pattern")
    if pattern in _FORMATS:
        return {"format": _FORMATS[pattern]}
    if pattern == _LABEL and in_host:
        return {"pattern": "[A-Za-z0-9][A-Za-z0-9-]*"}  # the characters allowed in a DNS label
    return {"pattern": pattern.removeprefix("^").removesuffix("$")} if pattern else {}


def credentials(facts: dict[str, Any]) -> dict[str, Form]:
    """Return the entry's `credentials`, by the name of the field. A field that always stays blank is included, but
    hidden.
    """
    found = {field["name"]: _field(field, facts) for field in facts.get("credentials", ())}
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


def _field(field: dict[str, Any], facts: dict[str, Any]) -> Form:
    name, title = field["name"], field["title"]
    if title == _BLANK:
        return _blank(name)
    if title.startswith('The word "'):
        return {"title": _NAMES[name], "default_value": title.split('"')[1], "hidden": True}
    if title == "(any text)":
        return {"default_value": "X", "hidden": True}
    form: Form = {}
    if (shown := title_case(title)) != title_from(name):
        form["title"] = shown
    if not (field.get("secret") or field.get("hidden")):
        form["description"] = f"{shown} of your {facts['display_name'].partition(' (')[0]} account."
    if "default" in field:
        form["default_value"] = field["default"]
    if field.get("required") is False:
        form["optional"] = True
    return form | {key: True for key in ("secret", "hidden") if field.get(key)}


def _blank(name: str) -> Form:
    return {"title": _NAMES[name], "optional": True, "hidden": True}
