"""Connect sessions: the customer's back end says who may connect what (api-contract 1.5)."""

from typing import Any

from aiohttp import web
from pydantic import Field, model_validator

from gateway.api.body import Strict, read_json
from gateway.api.connection_json import stamp_z
from gateway.api.shapes import EndUserBody, OrganizationBody, ProviderConfigKey, Tags, derived_tags, end_user
from gateway.errors import InvalidRequest, Issue
from gateway.services import SERVICES, Services
from middleware.facts import ENVIRONMENT


class IntegrationDefaults(Strict):
    """What the back end fixes for one integration; the browser cannot change it."""

    user_scopes: str | None = None
    authorization_params: dict[str, str] | None = None
    connection_config: dict[str, Any] | None = None


class Override(Strict):
    docs_connect: str | None = None


class NewSession(Strict):
    """`end_user` may be left out where `tags` tell whose connection it will be."""

    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    allowed_integrations: list[ProviderConfigKey] = Field(default_factory=list)
    integrations_config_defaults: dict[str, IntegrationDefaults] = Field(default_factory=dict)
    overrides: dict[str, Override] = Field(default_factory=dict)
    webhook_url_override: str | None = None

    @model_validator(mode="after")
    def _somebody(self) -> "NewSession":
        if self.end_user is None and self.tags is None:
            raise ValueError("end_user is missing; without it, give tags that tell whose connection it will be")
        return self


async def create_session(request: web.Request) -> web.Response:
    """201 with the token, the link to hand to the end user, and when both end."""
    body = await read_json(request, NewSession)
    services = request.app[SERVICES]
    environment = request[ENVIRONMENT].name
    _check_integrations(services, environment, body)
    user = end_user(body.end_user, body.organization)
    token, session = await services.sessions.open(
        environment,
        end_user=user,
        tags=derived_tags(user, body.tags),
        allowed_integrations=tuple(body.allowed_integrations),
        defaults={key: one.model_dump(exclude_none=True) for key, one in body.integrations_config_defaults.items()},
        overrides={key: one.model_dump(exclude_none=True) for key, one in body.overrides.items()},
        webhook_url_override=body.webhook_url_override,
    )
    link = f"{services.config.server.public_url}/connect?session_token={token}"
    told = {"token": token, "connect_link": link, "expires_at": stamp_z(session.expires_at)}
    return web.json_response({"data": told}, status=201)


def _check_integrations(services: Services, environment: str, body: NewSession) -> None:
    named = [
        *((("allowed_integrations", str(n)), key) for n, key in enumerate(body.allowed_integrations)),
        *((("integrations_config_defaults", key), key) for key in body.integrations_config_defaults),
        *((("overrides", key), key) for key in body.overrides),
    ]
    issues = [
        Issue("custom", f"Environment '{environment}' has no integration '{key}'.", path)
        for path, key in named
        if services.integrations.find(environment, key) is None
    ]
    if issues:
        raise InvalidRequest("invalid_body", issues[0].message, errors=issues)
