"""Rewrites an entry for a rehearsal: replaces each origin by an origin of the sandbox, and keeps paths and queries."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.catalog.folder import provider_json
from gateway.catalog.provider import Provider
from gateway.catalog.render import Unresolved, render_url
from gateway.catalog.template import TemplateError
from gateway.catalog.template_places import URL_FIELDS
from gateway.catalog.value import BadValue

_AUTHORITY: Final = re.compile(r"(?:https?://)?(?:\$\{[^}]*\}|[^/?$])*", re.IGNORECASE)
_NAMES: Final = re.compile(r"\$\{[^}]*\}")
ROLES: Final = (
    "authorization_url", "request_url", "registration_url", "token_url", "refresh_url", "installation_token_url",
    "installation_access_url", "revocation_url", "introspection_url",
)  # fmt: skip


@dataclass(slots=True)
class Stage:
    """An entry for a rehearsal.

    `new_origins`: yields a new origin of the sandbox each time. `origins`: for each origin of the provider (a template),
    the origin of the sandbox that replaces it.
    """

    provider: Provider
    new_origins: Iterator[str]
    origins: dict[str, str] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """Return the values of the rewritten entry."""
        rewritten_entry: dict[str, Any] = json.loads(provider_json(self.provider))
        for key in URL_FIELDS:
            if key in rewritten_entry:
                rewritten_entry[key] = self.with_sandbox_origin(rewritten_entry[key])
        for step in rewritten_entry.get("additional_steps", ()):
            step["url"] = self.with_sandbox_origin(step["url"])
        rewritten_entry.pop("alternatives", None)
        proxy = rewritten_entry["proxy"]
        proxy["base_url"] = self.with_sandbox_origin(proxy["base_url"])
        if "allowed_origins" in proxy:
            proxy["allowed_origins"] = [self.with_sandbox_origin(origin) for origin in proxy["allowed_origins"]]
        if "base_url_override" in proxy.get("verification", {}):
            proxy["verification"]["base_url_override"] = self.with_sandbox_origin(
                proxy["verification"]["base_url_override"]
            )
        account = rewritten_entry.get("account", {})
        if not account.get("endpoint", "/").startswith("/"):
            account["endpoint"] = self.with_sandbox_origin(account["endpoint"])
        for key in ("alias", "name", "sources"):
            rewritten_entry.pop(key, None)
        return rewritten_entry

    def with_sandbox_origin(self, template: str) -> str:
        """Return the URL `template` with an origin of the sandbox in place of the provider's origin."""
        origin, path = split(template)
        if origin not in self.origins:
            self.origins[origin] = next(self.new_origins)
        return self.origins[origin] + path

    def shown_origins(self, config: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
        """Return, for the report, the sandbox origin that replaces each origin of the provider.

        `config`, `values`: the connection's settings and other values, which are filled in.
        """
        origins: dict[str, str] = {}
        for template, sandbox_origin in self.origins.items():
            name = template
            with suppress(BadValue, Unresolved, TemplateError):
                name = render_url(template, config, self.provider.connection_config, values)
            origins[name] = sandbox_origin
        return origins


def split(template: str) -> tuple[str, str]:
    """Return the two parts of a URL template: the origin, and the rest."""
    match = _AUTHORITY.match(template)
    origin_end = match.end() if match else 0
    return template[:origin_end], template[origin_end:]


def path_pattern(template: str) -> re.Pattern[str]:
    """Return a pattern that matches the path of a URL template. A placeholder matches any value without a slash."""
    path = split(template)[1].partition("?")[0] or "/"
    literal_parts = map(re.escape, _NAMES.split(path))
    return re.compile("[^/?]*".join(literal_parts) + ("/?" if path == "/" else ""))
