"""The configuration as text, short and with what its reader needs to know."""

import json
import re
from typing import TYPE_CHECKING, Final

from gateway.cli.beginning.answers import DEFAULT_STORE, Answers, listening_on

if TYPE_CHECKING:
    from gateway.catalog.provider import Provider

CONFIGURATION: Final = """\
# The configuration of an integration gateway. Every key and its default: docs/configuration.md.
# ${{NAME}} is taken from the environment, ${{file:name}} from a file beside this one; `gateway check` finds what is wrong.
server:
  host: "{host}"                      # 0.0.0.0 listens on every address, as in a container
  port: {port}
  # As browsers reach this gateway. At each provider, register the callback address
  # {callback_url}
  public_url: {public_url}
store:
  url: {store_url}
  encryption_keys: ["${{file:encryption_key}}"]    # without this key no stored credential can be read: back it up

environments:
  dev:
    secret_keys: ["${{file:secret_key}}"]          # your application sends it: Authorization: Bearer <secret key>
{webhook}{integrations}"""
NO_INTEGRATION: Final = """\
    integrations: {}
    # integrations:                      # one for each provider you use; `gateway catalog list` shows what there is
    #   jira:
    #     provider: jira
    #     client_id: ${JIRA_CLIENT_ID}
    #     client_secret: ${JIRA_CLIENT_SECRET}
    #     scopes: [read:jira-work, offline_access]
"""
DATABASE_URL: Final = "database_url"  # the file that holds an address with a password
_PASSWORD: Final = re.compile(r"://[^/@]*:[^/@]+@")


def configuration(answers: Answers, provider: "Provider | None") -> str:
    host, port = listening_on(answers)
    url = answers.public_url
    return CONFIGURATION.format(
        host=host,
        port=port,
        public_url=url,
        callback_url=f"{url}/oauth/callback",
        store_url=_store(answers),
        webhook="" if answers.webhook_url is None else f"    webhook_url: {json.dumps(answers.webhook_url)}\n",
        integrations=_integrations(provider),
    )


def hides_password(answers: Answers) -> bool:
    """Whether the store's address has a password in it, which belongs into a file of its own."""
    return bool(answers.store_url and "${" not in answers.store_url and _PASSWORD.search(answers.store_url))


def _store(answers: Answers) -> str:
    if hides_password(answers):
        return f'"${{file:{DATABASE_URL}}}"'
    url = answers.store_url or DEFAULT_STORE
    relative = "              # relative to this file" if url == DEFAULT_STORE else ""
    return f"{url if relative else json.dumps(url)}{relative}"


def _integrations(provider: "Provider | None") -> str:
    if provider is None:
        return NO_INTEGRATION
    from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
    from gateway.pages.guide_steps import declaration

    whole = declaration(provider, AUTH_MODES.get(provider.auth_mode, ModeFormat("")))
    return "".join(f"{line}\n" for line in whole.splitlines()[2:])


def variables(text: str) -> list[str]:
    """The environment variables that a configuration refers to, in their order."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return list(dict.fromkeys(name for line in lines for name in re.findall(r"\$\{([A-Za-z_]\w*)\}", line)))
