"""``verification-account.json`` over entries that say nothing of it yet: the call that proves a credential, and whose account
it is.

Left out is what could refuse a right credential: calls that no source has, answers that say 200 to wrong credentials, and ids
that lie in a list of several, since their order may change.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

Entry = dict[str, Any]
Facts = Mapping[str, Any]

_SEEN: Final = frozenset({"source", "source-partly", "source-address-only"})
_IN_LIST: Final = re.compile(r"(^|\.)[0-9]+(\.|$)")
# Lists that have one item by design.
_SINGLE: Final = frozenset({"klaviyo", "klaviyo-oauth", "zoho-crm"})
# Apps of these may ask for an ID token, whose subject is the account's id already.
_WITH_ID_TOKEN: Final = ("google", "microsoft", "outlook", "one-", "youtube", "sharepoint")


def with_proof(name: str, entry: Entry, fact: Facts | None, correction: Facts) -> Entry:
    """`entry` with what `fact` adds to it, and `correction` does not say better."""
    if fact is None or fact["method"] != "GET" or "body" in fact["expect"]:
        return entry
    below = fact.get("path_below_base_url")
    if re.search(r"\$\{(?!connectionConfig\.)", fact["address"]) or not (below or "/").startswith("/"):
        return entry  # names what no setting of the entry holds
    account = dict(fact.get("account", {}))
    made = dict(entry)
    if "account" not in correction and (account_form := _account(name, entry, account, below or fact["address"])):
        if fact.get("headers"):
            account_form["headers"] = dict(fact["headers"])
        made.setdefault("account", account_form)
    if "verification" not in entry["proxy"] and below and fact["confidence"] in _SEEN and not fact.get("headers"):
        made["proxy"] = {**entry["proxy"], "verification": {"endpoints": [below]}}
    return made


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
