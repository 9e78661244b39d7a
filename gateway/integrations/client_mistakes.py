"""Recognizes mistakes in copying a client's ID and secret, from the format of the values.

Messages never contain a value, because the value can be a secret.
"""

import re
from typing import Final

from gateway.records.integration import Integration

# Matches only texts that nobody would choose as an ID. Some providers let operators choose client IDs such as "my-app"
# or "test-client", which must not match.
PLACEHOLDER: Final = re.compile(
    r"""<.*> | \[.*\] | \{.*\} | x{3,} | \.{3,} | \*{3,} | change[-_ ]?me | todo | fixme | tbd | none | null | undefined
    | secret | client[-_ ]?(id|secret) | your[-_ ].* | .*[-_ ]here""",
    re.IGNORECASE | re.VERBOSE,
)


def client_values(integration: Integration) -> dict[str, str]:
    """Return the client values of the integration that are set, by key: client ID, client secret and app ID."""
    secret = integration.client_secret
    values = {
        "client_id": integration.client_id,
        "client_secret": secret.reveal() if secret else None,
        "app_id": integration.app_id,
    }
    return {key: value for key, value in values.items() if value is not None}


def client_mistakes(integration: Integration) -> list[tuple[str, str]]:
    """Return pairs of a key and what is wrong with its value, such as ``("client_id", "has quotes around it")``."""
    client = client_values(integration)
    mistakes = [(key, mistake) for key, value in client.items() if (mistake := _mistake(value)) is not None]
    if client.get("client_id") and client.get("client_id") == client.get("client_secret"):
        mistakes.append(("client_secret", "is the same as client_id"))
    return mistakes


def _mistake(value: str) -> str | None:
    if not value:
        return "is empty"
    if value != value.strip() or any(character.isspace() for character in value):
        return "contains a space or a line break"
    if value[0] in "\"'`“‘" or value[-1] in "\"'`”’":
        return "has quotes around it"
    if PLACEHOLDER.fullmatch(value):
        return "is a placeholder"
    if "•" in value or re.search(r"\*{4,}|\.{3,}|…", value):
        return "is masked or shortened, as the provider's console shows it"
    if value.startswith(("http://", "https://")):
        return "is a URL"
    if value.startswith(("Bearer ", "Basic ")):
        return "is a header, not only the value"
    return None
