"""The steps from a provider's developer console to the first connection, generated from the catalog entry."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.hosts import open_secret_urls
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting, Setup, title_from

_APP_KINDS: Final = {"OAUTH1": "an OAuth 1.0 app", "APP": "an app", "CUSTOM": "an app", "INSTALL_PLUGIN": "a plugin"}
_READ_SCOPE: Final = re.compile(r"readonly|(?:^|[^a-z])read(?:$|[^a-z])")
_UNCHECKED_MODES: Final = frozenset({"APP", "INSTALL_PLUGIN"})
UNCHECKED_INSTALLATION: Final = (
    "An end user can connect another customer's installation: the browser names it, and nothing can check it. Where end users "
    "do not trust each other, use an entry that checks it with the end user's own grant (for GitHub: github-app-user)."
)
_WITH_SCOPES: Final = frozenset({"OAUTH2", "CUSTOM", "MCP_OAUTH2"})
CALLBACK: Final = "/oauth/callback"
MAKE_PUBLIC: Final = (
    "Make the app public if the provider distinguishes private and public apps: a private app works only for its owner. "
    "Most providers ask for the URL of a privacy policy."
)


@dataclass(frozen=True, slots=True)
class GuideStep:
    """One step: what to do (`text`), where (`link`), and what to copy (`code`)."""

    text: str
    link: str | None = None
    code: str | None = None
    notes: tuple[str, ...] = field(default=())
    items: tuple[str, ...] = field(default=())
    """The parts of the step, in order."""


def steps(provider: Provider, public_url: str, family: str | None) -> list[GuideStep]:
    """Return all steps up to the first connection, in order.

    `family`: the display name of another provider with an app that works for this provider too; None: no such app.
    """
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    declare_step = GuideStep("Declare the integration in gateway.yaml.", code=declaration(provider, mode))
    if not mode.redirects:
        create_step = GuideStep(
            "Create a connection: send the credential to the gateway.", code=import_command(provider, mode, public_url)
        )
        return [*_where_credentials_are(provider, mode), declare_step, create_step]
    create_step = GuideStep(
        "Connect a test user: create a link, open it, authorize.", code=session_command(provider, public_url)
    )
    if _registers_itself(provider) or not mode.integration_keys:
        text = f"There is nothing to register: the gateway registers itself at {provider.display_name} when a user connects."
        return [GuideStep(text), declare_step, create_step]
    return [*_registration(provider, mode, public_url, family), create_step]


def _where_credentials_are(provider: Provider, mode: ModeFormat) -> Iterator[GuideStep]:
    name, page = provider.display_name, provider.setup_guide_url or provider.docs
    if mode.integration_keys:
        yield GuideStep(f"Register an application at {name}.", link=page)
    if mode.typed_fields or provider.credentials:
        yield GuideStep(
            f"Each user has their own credential, which they get from {name}.", link=provider.docs_connect or page
        )


def _registration(provider: Provider, mode: ModeFormat, public_url: str, family: str | None) -> Iterator[GuideStep]:
    """Yield the steps for a provider at which the operator registers an app, without the step that connects a user."""
    app_kind = _APP_KINDS.get(provider.auth_mode, "an OAuth 2.0 app")
    shared = (f"If you have an app for {family}, use it for this provider too: add what is missing.",) if family else ()
    page = provider.setup_guide_url or provider.docs
    if provider.setup is None:
        yield GuideStep(f"Create {app_kind} in {provider.display_name}'s developer console.", link=page, notes=shared)
    else:
        callback = f"The callback URL is {public_url}{CALLBACK}."
        yield _console_step(provider.display_name, provider.setup, (*shared, callback))
    yield GuideStep("Register exactly this callback URL.", code=f"{public_url}{CALLBACK}")
    if provider.auth_mode in _WITH_SCOPES:
        yield GuideStep("Select the scopes that your application needs.", notes=tuple(_scope_notes(provider)))
    variables = ", ".join(_variable(provider, key) for key in mode.integration_keys)
    text = (
        f"Copy what the console shows into the environment ({variables}), and declare the integration in gateway.yaml."
    )
    yield GuideStep(text, code=declaration(provider, mode), notes=tuple(_variable_notes(mode)))
    blocks = provider.setup.blocks_production if provider.setup else ()
    unchecked = provider.auth_mode == "CUSTOM" and provider.installation_access_url is None
    risks = (UNCHECKED_INSTALLATION,) if unchecked or provider.auth_mode in _UNCHECKED_MODES else ()
    yield GuideStep(MAKE_PUBLIC, notes=risks, items=tuple(f"{block[:1].upper()}{block[1:]}." for block in blocks))


def _variable_notes(mode: ModeFormat) -> Iterator[str]:
    yield "These are environment variables: restart the gateway after you set them. SIGHUP only loads changes in gateway.yaml."
    if "app_link" in mode.integration_keys:
        yield "The app's public link is the URL of its page, such as https://github.com/apps/my-app."
    if "private_key" in mode.integration_keys:
        yield "The private key is the text of the PEM file. To read it from the file, write ${file:path/to/key.pem} instead."


def _console_step(name: str, setup: Setup, notes: tuple[str, ...]) -> GuideStep:
    basis = "from the provider's pages" if setup.sources else "from general knowledge, not verified"
    instruction = f"Create an app in {name}'s developer console" + (f": {setup.app_type}." if setup.app_type else ".")
    date_note = f"As of {setup.date}, {basis}. Consoles change."
    return GuideStep(instruction, link=setup.console, notes=(*notes, date_note), items=tuple(setup.steps))


def _scope_notes(provider: Provider) -> Iterator[str]:
    if scopes := _starter_scopes(provider):
        yield f"To start with: {', '.join(scopes)}. Select the same scopes here and in gateway.yaml (next step)."
    if provider.default_scopes:
        yield f"Requested unless the integration has other scopes: {', '.join(provider.default_scopes)}."
    if any(scope.endswith(".default") for scope in provider.default_scopes or ()):
        yield ".default stands for all permissions with which the app is registered."
    if provider.refresh is not None and (needed_scope := provider.refresh.requires_scope):
        yield f"Without {needed_scope}, there is no refresh token, and every connection ends when its first access token expires."


def declaration(provider: Provider, mode: ModeFormat) -> str:
    """Return the declaration of an integration for gateway.yaml. The provider's name is the integration's ID."""
    lines = [f"{provider.name}:", f"  provider: {provider.name}"]
    lines += [
        f'  {key}: "${{{_variable(provider, key)}}}"'
        for key in mode.integration_keys
        if not _registers_itself(provider)
    ]
    if mode.integration_keys and not _registers_itself(provider) and (hosts := _example_hosts(provider)):
        lines.append(f"  allowed_hosts: [{', '.join(hosts)}]")
    if mode.redirects and (scopes := _starter_scopes(provider)):
        lines.append(f"  scopes: [{', '.join(map(_yaml_scope, scopes))}]")
    return "environments:\n  dev:\n    integrations:\n" + "\n".join(f"      {line}" for line in lines)


def _starter_scopes(provider: Provider) -> list[str]:
    """Return the scopes to start with: the scopes in the entry's setup section, else the entry's default scopes.

    If the default scopes allow only a refresh, add up to two scopes, preferably scopes that allow reading.
    """
    if provider.setup is not None and provider.setup.scopes:
        return provider.setup.scopes
    default_scopes = provider.default_scopes or []
    needed_scope = provider.refresh.requires_scope if provider.refresh else None
    if set(default_scopes) - {needed_scope, "offline_access"}:
        return default_scopes
    other_scopes = [
        scope for scope in provider.available_scopes or [] if scope not in default_scopes and scope != needed_scope
    ]
    reading = [scope for scope in other_scopes if _READ_SCOPE.search(scope)]
    return [*(reading or other_scopes)[:2], *(default_scopes or ([needed_scope] if needed_scope else []))]


def _example_hosts(provider: Provider) -> list[str]:
    """Return an example host for each setting with which an end user chooses a host that receives the client secret."""
    host_settings = dict.fromkeys(setting for _, setting in open_secret_urls(provider))
    settings = provider.connection_config
    examples = [(settings[name].example if name in settings else None) or "example.com" for name in host_settings]
    return [urlsplit(text).netloc if "://" in text else text for text in examples]


def _yaml_scope(scope: str) -> str:
    return f'"{scope}"' if ":" in scope else scope


def _registers_itself(provider: Provider) -> bool:
    return provider.client_registration in {"dynamic", "metadata_document"}


def _variable(provider: Provider, key: str) -> str:
    return f"{provider.name}_{key}".upper().replace("-", "_")


def session_command(provider: Provider, public_url: str) -> str:
    """Return the curl command that creates a connect link."""
    body = json.dumps({"end_user": {"id": "user-1"}, "allowed_integrations": [provider.name]})
    return _post(f"{public_url}/connect/sessions", body)


def import_command(provider: Provider, mode: ModeFormat, public_url: str) -> str:
    """Return the curl command that creates a connection from a credential."""
    fields = provider.credentials or {name: Setting(title=title_from(name)) for name in mode.typed_fields}
    typed_values = {name: _example(field) for name, field in fields.items() if not field.hidden}
    hidden_values = {name: field.default_value or "" for name, field in fields.items() if field.hidden}
    settings = {
        name: _example(setting)
        for name, setting in provider.connection_config.items()
        if _is_visible(setting) and not setting.optional
    }
    body: dict[str, Any] = {"provider_config_key": provider.name, "connection_id": "user-1"}
    if settings:
        body["connection_config"] = settings
    body["credentials"] = {"type": provider.auth_mode, **typed_values, **hidden_values}
    return _post(f"{public_url}/connections", json.dumps(body, ensure_ascii=False))


def _post(url: str, body: str) -> str:
    return (
        "curl -X POST \\\n     -H 'Authorization: Bearer <SECRET_KEY>' \\\n     -H 'Content-Type: application/json' \\\n"
        f"     -d {shlex.quote(body)} \\\n     {shlex.quote(url)}"
    )


def _example(setting: Setting) -> str:
    return setting.example or (setting.enum[0] if setting.enum else None) or setting.default_value or "…"


def visible_settings(settings: Mapping[str, Setting]) -> list[tuple[str, Setting]]:
    """Return the settings that an end user types in, in the order of the form."""
    visible = [(name, setting) for name, setting in settings.items() if _is_visible(setting)]
    return sorted(visible, key=lambda pair: 99 if pair[1].order is None else pair[1].order)


def _is_visible(setting: Setting) -> bool:
    return not (setting.automated or setting.hidden)
