"""Checks the integrations of gateway.yaml against the catalog, for errors that neither shows alone."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gateway import resources
from gateway.auth import modes
from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.folder import folders_state
from gateway.catalog.hosts import open_secret_urls, open_urls
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.provider import Provider
from gateway.catalog.refresh_tokens import refresh_scope
from gateway.catalog.yaml_file import CatalogFaults
from gateway.config import Config, Fault, Faults
from gateway.config.values import private_key
from gateway.records.integration import Integration
from gateway.scripts import POST_CONNECTION, WEBHOOK_ROUTING

Place = tuple[str, ...]

APP_LINK = "${connectionConfig.appPublicLink}"
SCRIPTS = frozenset({*POST_CONNECTION, *WEBHOOK_ROUTING})


def catalog_of(config: Config | None) -> Catalog:
    """Return the shipped catalog with the folders that `config` adds. `config` None: only the shipped catalog.

    Raises CatalogFaults, a subclass of Faults, with every error of every file.
    """
    folders = config.catalog if config else ()
    state = folders_state(folders)
    return load_catalog(
        [resources.folder("catalog"), *folders], scripts=SCRIPTS, modes=known_modes(), folders_state=state
    )


def known_modes() -> frozenset[str]:
    """Return the auth modes that an entry may name.

    These are all modes of the catalog format, even if this installation does not implement some of them, and the modes
    of other installed packages.
    """
    return frozenset((*AUTH_MODES, *modes()))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking a configuration against its catalog.

    `integrations`: the declared integrations whose provider exists.
    `faults`: the errors that prevent a start.
    `warnings`: problems that do not prevent a start.
    """

    catalog: Catalog
    integrations: list[Integration]
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def examine_catalog(config: Config, left_out: Collection[Place] = ()) -> CheckResult:
    """Check the catalog of `config`, and the declared integrations.

    `left_out`: places of `config` whose error is already reported.
    """
    faults: list[Fault] = []
    try:
        catalog = catalog_of(config)
    except CatalogFaults as catalog_faults:
        catalog = catalog_faults.catalog
        faults += catalog_faults.faults
    usable_integrations, integration_faults, warnings = integrations(config, catalog, left_out)
    return CheckResult(catalog, usable_integrations, (*integration_faults, *faults), tuple(warnings))


def all_faults(faults: Faults) -> Faults:
    """Return the errors `faults` in a configuration, plus the errors of its catalog and integrations.

    If the configuration cannot be read at all, return only `faults`.
    """
    if faults.readable is None:
        return faults
    catalog_faults = examine_catalog(faults.readable.config, faults.readable.left_out)
    return Faults([*faults.faults, *catalog_faults.faults], faults.readable)


def integrations(
    config: Config, catalog: Catalog, left_out: Collection[Place] = ()
) -> tuple[list[Integration], list[Fault], list[Fault]]:
    """Return the declared integrations, the errors that prevent a start, and the warnings.

    Errors and warnings name their place as ``file:line``. `left_out`: places of `config` whose error is already
    reported.
    """
    usable_integrations: list[Integration] = []
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for environment in config.environments.values():
        for key, integration in environment.integrations.items():
            place = ("environments", environment.name, "integrations", key)
            provider = catalog.get(integration.provider)
            if (*place, "provider") in left_out or (provider is None and integration.provider in catalog.faulty):
                continue
            if provider is None:
                faults.append(_unknown(config, catalog, (*place, "provider"), integration.provider))
                continue
            if (*place, "client_id") not in left_out:
                faults += (
                    Fault(config.file_and_line(*fault_place), message)
                    for fault_place, message in _faults(place, integration, provider)
                )
            has_faulty_secret = (*place, "client_secret") in left_out
            place_warnings = _warnings(place, integration, provider, has_faulty_secret=has_faulty_secret)
            warnings += (Fault(config.file_and_line(*fault_place), message) for fault_place, message in place_warnings)
            usable_integrations.append(integration)
    return usable_integrations, faults, warnings


def _unknown(config: Config, catalog: Catalog, place: Place, name: str) -> Fault:
    hint = catalog.suggestion(name) or "; `gateway catalog list` lists the providers"
    return Fault(config.file_and_line(*place), f"the catalog has no provider '{name}'{hint}")


def _faults(place: Place, integration: Integration, provider: Provider) -> Iterator[tuple[Place, str]]:
    if provider.auth_mode not in modes():
        missing_mode = f"auth mode {provider.auth_mode}, which this installation does not have"
        yield (
            (*place, "provider"),
            f"provider '{provider.name}' uses {missing_mode}; use one of {', '.join(sorted(modes()))}",
        )
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    if mode.needs_client and not integration.client_id:
        page = provider.setup_guide_url or provider.docs
        console = " from its developer console" + (f" ({page})" if page else "")
        yield place, f"provider '{provider.name}' is {provider.auth_mode}: set client_id and client_secret{console}"
    if mode.needs_app and not _has_signing_key(integration, provider):
        docs_link = f" ({provider.docs})" if provider.docs else ""
        message = f"provider '{provider.name}' is {provider.auth_mode}: set app_id, app_link and private_key{docs_link}"
        yield place, message + ("; client_secret is not a private key" if integration.client_secret else "")


def _warnings(
    place: Place, integration: Integration, provider: Provider, *, has_faulty_secret: bool
) -> Iterator[tuple[Place, str]]:
    needed_scope = refresh_scope(provider)
    joined_scopes = next((scope for scope in integration.scopes or () if "," in scope), None)
    if joined_scopes is not None:
        separate_scopes = ", ".join(part.strip() for part in joined_scopes.split(","))
        yield (*place, "scopes"), f"'{joined_scopes}' is read as one scope; write a list: [{separate_scopes}]"
    elif needed_scope and integration.scopes is not None and needed_scope not in integration.scopes:
        consequence = f"'{provider.name}' gives no refresh token and every connection ends with its first access token"
        yield (*place, "scopes"), f"'{needed_scope}' is not among the scopes, so {consequence}"
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    if mode.needs_client and integration.client_id and not integration.client_secret and not has_faulty_secret:
        if integration.client_secret is None:
            yield place, "no client_secret: token requests are sent as a public client, which few providers accept"
        else:
            yield (
                (*place, "client_secret"),
                "client_secret is empty: token requests are sent with an empty secret, which few providers accept",
            )
    secret = next((name for name in ("client_secret", "private_key") if getattr(integration, name)), None)
    open_url = next(iter(open_secret_urls(provider)), None)
    if secret and open_url and not integration.allowed_hosts:
        url_field, setting = open_url
        message = f"{secret.replace('_', ' ')} is withheld where end users choose the host (setting '{setting}' of {url_field})"
        yield (*place, secret), f"integration '{place[-1]}': {message}: add allowed_hosts"
    if integration.allowed_hosts and next(open_urls(provider), None) is None:
        yield (
            (*place, "allowed_hosts"),
            f"allowed_hosts has no effect: provider '{provider.name}' names its hosts itself",
        )
    yield from _missing_keys(place, integration, provider)
    yield from _keys_without_effect(place, integration, provider)


def _missing_keys(place: Place, integration: Integration, provider: Provider) -> Iterator[tuple[Place, str]]:
    """Yield a warning for each missing key without which only some connections work."""
    mode = provider.auth_mode
    if mode == "APP" and not (integration.app_id or integration.client_id):
        yield place, "no app_id: no token can be requested, except for imports with their own app_id"
    install_url = provider.authorization_url or ""
    if mode == "CUSTOM" and provider.installation_access_url is None:
        risk = "an end user can connect another customer's installation"
        yield place, f"provider '{provider.name}' has no installation_access_url: {risk}; add it to the entry"
    needs_app = AUTH_MODES.get(mode, ModeFormat("")).needs_app
    if needs_app and APP_LINK in install_url and not integration.app_link:
        yield place, "no app_link: no end user can install the app; set the app's page at the provider"
    if mode == "INSTALL_PLUGIN" and not (integration.app_link or install_url):
        yield place, "no app_link: no end user can install the plugin; set the plugin's page at the provider"
    if integration.client_id:
        return
    if mode == "MCP_OAUTH2" and provider.client_registration == "static":
        reason = f"{provider.display_name} does not support dynamic client registration"
        yield place, f"no client_id: {reason}; register an OAuth client there and set client_id"
    if mode == "TBA":
        yield place, "no client_id and client_secret: only imports with a config_override work"
    if mode == "AWS_SIGV4" and "role_arn" in provider.credentials:
        yield place, "no client_id and client_secret: no role can be assumed; set your own access key"


def _keys_without_effect(place: Place, integration: Integration, provider: Provider) -> Iterator[tuple[Place, str]]:
    """Yield a warning for each key that the provider's auth mode does not use."""
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is None:
        return
    used_keys = {*mode.integration_keys, *mode.optional_integration_keys}
    used_text = ", ".join(sorted(used_keys)) or "none of these keys"
    if provider.webhook_signature is not None:
        used_keys.add("client_secret")  # some providers sign their webhooks with the client secret
    for key in ("client_id", "client_secret", "app_id", "app_link", "private_key"):
        if getattr(integration, key) and key not in used_keys:
            yield (
                (*place, key),
                f"{key} has no effect: '{provider.name}' is {provider.auth_mode}, which uses {used_text}",
            )


def _has_signing_key(integration: Integration, provider: Provider) -> bool:
    """Return whether an app has a key for signing tokens.

    The key is `private_key`, or a `client_secret` that is a private key or a shared key for HS algorithms.
    """
    if integration.private_key:
        return True
    if not integration.client_secret:
        return False
    text = integration.client_secret.reveal()
    if provider.jwt is not None and provider.jwt.header.get("alg", "").startswith("HS"):
        return True
    try:
        private_key(text)
    except ValueError:
        return text.lstrip().startswith("{")  # such a text is a private key in JSON format (JWK)
    return True
