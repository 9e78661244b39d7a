"""Adds webhook signatures from ``subscriptions.json`` to entries that have none.

The tool copies the signature from another entry of the same API, if there is one. Otherwise it uses the facts, if a
source confirms the signature and its scheme is a plain HMAC.
"""

from collections.abc import Mapping
from typing import Any, Final

Entry = dict[str, Any]
Facts = Mapping[str, Any]

_SCHEMES: Final = frozenset({"hmac-sha256", "hmac-sha1"})
_OF_CLIENT: Final = frozenset({"client secret", "app secret"})
_WITHOUT_CLIENT: Final = frozenset({"API_KEY", "BASIC"})
_SIGNED: Final = {
    "raw body": "raw body",
    "raw body + klaviyo-timestamp": "{raw body}{klaviyo-timestamp}",
}


def signatures(facts: Facts, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the new `webhook_signature` of each entry that has none. Entries that inherit from a base entry do not
    change.
    """
    found: dict[str, Entry] = {}
    for fact in facts.values():
        there = [entries[name] for name in fact["entries"] if name in entries]
        known = next((item["webhook_signature"] for item in there if "webhook_signature" in item), None) or _plain(fact)
        if known is None:
            continue
        for name in fact["entries"]:
            entry = entries.get(name)
            if entry is not None and "webhook_signature" not in entry and "alias" not in entry:
                found[name] = _without_key_of_client(known, entry)
    return found


def _plain(fact: Facts) -> Entry | None:
    said = fact.get("signature") or {}
    signed = _SIGNED.get(said.get("signed", ""))
    if fact.get("signature_confidence") != "sourced" or said.get("scheme") not in _SCHEMES or signed is None:
        return None
    made: Entry = {"scheme": said["scheme"], "header": said["header"], "encoding": said["encoding"]}
    made |= {"prefix": said["prefix"]} if "prefix" in said else {}
    made |= {"signed_payload": signed}
    return made | ({"key": said["key"]} if "key" in said else {})


def _without_key_of_client(known: Entry, entry: Entry) -> Entry:
    """Remove the client secret as signing key from auth modes without a client. There, only the operator's own key can
    sign.
    """
    if entry.get("auth_mode") in _WITHOUT_CLIENT and known.get("key") in _OF_CLIENT:
        return {name: value for name, value in known.items() if name != "key"}
    return dict(known)
