"""The demo users who can log in, and the scopes that an application can request, each with a description."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DemoAccount:
    """A demo user. The password is not secret: the login page shows it.

    `sites`: the cloud IDs of the sites that the user can access.
    """

    account_id: str
    email: str
    display_name: str
    password: str
    sites: tuple[str, ...]


ACME: Final = "5f2a7c10-3b7e-4c57-9d0b-6a1f0c5e8d11"
GLOBEX: Final = "9c41d6f2-8e05-4f3a-b1c6-27d85a9e4022"

ACCOUNTS: Final[Mapping[str, DemoAccount]] = {
    account.account_id: account
    for account in (
        DemoAccount("5b10a2844c20165700ede21g", "demo@example.com", "Dana Demo", "demo", (ACME, GLOBEX)),
        DemoAccount("5b10ac8d82e05b22cc7d4ef5", "viewer@example.com", "Vic Viewer", "demo", (GLOBEX,)),
    )
}

OFFLINE_SCOPE: Final = "offline_access"
SCOPES: Final[Mapping[str, str]] = {
    "read:sandbox-user": "See who you are: your name and e-mail address",
    "read:sandbox-work": "Read projects and issues on your sites",
    "write:sandbox-work": "Create and update issues",
    "delete:sandbox-work": "Delete issues",
    "manage:sandbox-project": "Manage project settings",
    "manage:sandbox-configuration": "Manage the settings of your sites",
    OFFLINE_SCOPE: "Keep this access while you are away",
}


def authenticate(email: str, password: str) -> DemoAccount | None:
    """Return the account with this e-mail address, in upper or lower case, and this password; None if there is none."""
    for account in ACCOUNTS.values():
        if account.email == email.strip().lower() and hmac.compare_digest(account.password.encode(), password.encode()):
            return account
    return None


def unknown_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes that are not in `SCOPES`, in order."""
    return [scope for scope in scopes if scope not in SCOPES]
