"""The requests to a deployment, for the script that records the responses and for the test that compares them."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from tests.upgrade.deployment import KEYS, Client, Deployment, Response

MOVES = "(moves)"
"""Replaces values in expected.json that differed between two runs of one version."""

# Messages may change with any version, codes may not. A diagnosis is advice derived from the history.
PROSE = frozenset({"message", "fix", "changed_by", "diagnosis"})
# Not requested here, since a request changes this connection: its token is refreshed. `test_upgrade.py` requests it.
CHANGED_BY_A_REQUEST = ("expired",)
PROXY_ERRORS = ("valid", "mail", "ledger", "machine", "signed", "steps", "cloud", "open", "git", "made")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


async def responses(deployment: Deployment, client: Client, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return status and body of each response, by request. `known`: the secrets that the script recorded."""
    found = dict[str, Any]()

    async def ask(path: str, **options: Any) -> Any:
        name = options.pop("name", path)
        response = await client.call(options.pop("method", "GET"), path, **options)
        found[name] = _comparable(response)
        return response.body

    for environment, key in KEYS.items():
        listed = await ask("/connections", name=f"{environment} /connections", key=key)
        for connection in sorted(listed["connections"], key=lambda connection: str(connection["connection_id"])):
            connection_id, integration_id = connection["connection_id"], connection["provider_config_key"]
            if connection_id not in CHANGED_BY_A_REQUEST:
                path = f"/connections/{quote(connection_id)}?provider_config_key={integration_id}"
                await ask(f"{path}&include=history", name=f"{environment} {path}", key=key)
        for integration in (await ask("/integrations", name=f"{environment} /integrations", key=key))["data"]:
            path = f"/integrations/{integration['unique_key']}?include=webhook&include=credentials"
            await ask(path, name=f"{environment} {path}", key=key)
        for path in ("/environment/api-keys?include=ended", "/environment-variables"):
            await ask(path, name=f"{environment} {path}", key=key)
    found |= await _lists_of_commands(deployment)
    for name, session in known["sessions"].items():
        path = f"/connect/sessions/{session['session_id']}"
        await ask(path, name=f"result of session {name}", key=KEYS[session["environment"]])
        await ask("/connect/session", name=f"session {name}", key=session["token"])
    for name, key in known["keys"].items():
        await ask("/connections", name=f"connections of key {name}", key=key)
        for path in ("/things/1", "/other"):
            response = await client.call_proxy("crm", "valid", path, key=key)
            found[f"{path} by key {name}"] = _comparable(response)
    for name in PROXY_ERRORS:
        integration = {"valid": "crm", "made": "crm-api"}.get(name, name)
        response = await client.call_proxy(integration, name)
        found[f"proxied {name}"] = _comparable(response)
    for name in ("dead", "nobody"):
        response = await client.call_proxy("crm", name)
        found[f"proxied {name}"] = _comparable(response)
    path = known["capability"]
    await ask(f"{path}/things/2", name="capability", key="")
    return found


async def _lists_of_commands(deployment: Deployment) -> dict[str, Any]:
    found = dict[str, Any]()
    for name in KEYS:
        text = await deployment.command("events", "list", "--environment", name, "--json")
        found[f"{name} events"] = json.loads(text)
    return found | {"signing key": await deployment.command("events", "key", "--environment", "production")}


def _comparable(response: Response) -> dict[str, Any]:
    return {"status": response.status, "body": _without_prose(response.body)}


def _without_prose(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_prose(member) for name, member in value.items() if name not in PROSE}
    return [_without_prose(item) for item in value] if isinstance(value, list) else value


def mask_differences(first: Any, second: Any) -> Any:
    """Return `first`, with MOVES in place of each member that differs in `second`."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: mask_differences(value, second.get(name)) for name, value in first.items()}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [mask_differences(a, b) for a, b in zip(first, second, strict=True)]
    return first if first == second else MOVES


def differences(expected: Any, found: Any, shift: timedelta, path: str = "") -> list[str]:
    """Return where `found` differs from `expected`. New members are allowed. A time may be later by exactly `shift`."""
    if expected == MOVES:
        return []
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{path}/{name} is missing" for name in expected if name not in found]
        common = [name for name in expected if name in found]
        return missing + [
            d for name in common for d in differences(expected[name], found[name], shift, f"{path}/{name}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [d for n, (a, b) in pairs for d in differences(a, b, shift, f"{path}/{n}")]
    if expected == found or (
        isinstance(expected, str) and isinstance(found, str) and _same_but_for_times(expected, found, shift)
    ):
        return []
    return [f"{path} is {found!r}, not {expected!r}"]


def _same_but_for_times(expected: str, found: str, shift: timedelta) -> bool:
    """Return whether the texts are equal, except that each time may be later by exactly `shift`."""
    if _TIME.sub("", expected) != _TIME.sub("", found):
        return False
    times = zip(_TIME.finditer(expected), _TIME.finditer(found), strict=True)
    return all(datetime.fromisoformat(b[0]) - datetime.fromisoformat(a[0]) in (timedelta(), shift) for a, b in times)
