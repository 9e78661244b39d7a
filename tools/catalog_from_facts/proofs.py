"""Adds the request that verifies a credential, and the account ID, from ``verification-account.json``.

Entries that already have these fields do not change. The tool adds nothing that could reject a valid credential. So it
ignores requests that no source confirms, and IDs from a list with several items, because their order may change. Some
APIs return 2xx for an invalid credential; for these, the facts describe in words what the response must contain.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

Entry = dict[str, Any]
Facts = Mapping[str, Any]

_SEEN: Final = frozenset({"source", "source-partly", "source-address-only"})
_IN_LIST: Final = re.compile(r"(^|\.)[0-9]+(\.|$)")
# The lists in the responses of these providers always have one item.
_SINGLE: Final = frozenset({"klaviyo", "klaviyo-oauth", "zoho-crm", "snowflake"})
# The ID in the responses of these providers belongs to the key, and a user can replace the key.
_NO_ACCOUNT: Final = frozenset({"ashby", "cloudflare"})
# OAuth apps of these providers can request an ID token, which already contains the account ID as its subject.
_WITH_ID_TOKEN: Final = ("google", "microsoft", "outlook", "one-", "youtube", "sharepoint")
_IS: Final = re.compile(r"([\w.]+) is (\w+)")
_ARE_TRUE: Final = re.compile(r"members ([\w.]+) and ([\w.]+) are true")
_NONE: Final = re.compile(r"no member ([\w.]+)")


def with_verification(name: str, entry: Entry, fact: Facts | None, correction: Facts) -> Entry:
    """Return `entry` with the fields that `fact` adds to it, unless `correction` sets them."""
    if fact is None or fact["method"] not in {"GET", "POST"}:
        return entry
    below = fact.get("path_below_base_url")
    if re.search(r"\$\{(?!connectionConfig\.)", below or fact["address"]) or not (below or "/").startswith("/"):
        return entry  # the URL contains a name that is not a setting of the entry
    try:
        how = _request(fact)
    except ValueError:
        return entry  # the body is a form or plain text
    expect = expected(fact["expect"].get("body", ""))
    made = dict(entry)
    sure = fact["method"] == "GET" or fact["confidence"] in _SEEN
    if (
        sure
        and name not in _NO_ACCOUNT
        and "account" not in correction
        and (account_form := _account(name, entry, dict(fact.get("account", {})), below or fact["address"]))
    ):
        if fact.get("headers"):
            account_form["headers"] = dict(fact["headers"])
        made.setdefault("account", account_form | how)
    proof = entry["proxy"].get("verification") or correction.get("proxy", {}).get("verification")
    if proof is not None and expect and below in proof["endpoints"]:
        made["proxy"] = {**entry["proxy"], "verification": {**entry["proxy"].get("verification", {}), "expect": expect}}
    elif proof is None and below and fact["confidence"] in _SEEN and not fact.get("headers"):
        verification = how | {"endpoints": [below]} | ({"expect": expect} if expect else {})
        made["proxy"] = {**entry["proxy"], "verification": verification}
    return made


def _request(fact: Facts) -> Entry:
    """Return `method` and `data` if the request is not a plain GET. Raises ValueError if the body is not a JSON object."""
    if fact["method"] == "GET":
        return {}
    text = str(fact.get("body") or "null")
    data = None if text.startswith("null") else json.loads(text)
    if data is not None and not isinstance(data, dict):
        raise ValueError(text)
    return {"method": "POST"} | ({} if data is None else {"data": data})


def expected(words: str) -> dict[str, Any]:
    """Convert `words` such as ``member ok is true`` to the field `expect`. Text in brackets is only a remark."""
    plain = re.sub(r"\([^)]*\)", "", words)
    found: dict[str, Any] = {member: _value(text) for member, text in _IS.findall(plain)}
    for pair in _ARE_TRUE.findall(plain):
        found |= dict.fromkeys(pair, True)
    return found | dict.fromkeys(_NONE.findall(plain), "-")


def _value(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if text.isdigit() else text


def _account(name: str, entry: Entry, account: Entry, endpoint: str) -> Entry | None:
    labels = [path for path in account.get("label", ()) if not path.split(".")[0].isdigit()]
    scopes = {*entry.get("default_scopes", ()), *entry.get("available_scopes", ())}
    id_token = (
        "openid" in scopes
        or (entry.get("family") or name).startswith(_WITH_ID_TOKEN)
        or name.startswith(_WITH_ID_TOKEN)
    )
    stable = "id" in account and (name in _SINGLE or not _IN_LIST.search(account["id"]))
    if not labels or not (stable or id_token):
        return None
    return {"endpoint": endpoint} | ({"id": account["id"]} if stable and not id_token else {}) | {"label": labels}
