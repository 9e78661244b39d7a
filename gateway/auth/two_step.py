"""TWO_STEP: the end user's typed credential is exchanged for a token, in one or more requests.

The token request is step 1; `additional_steps` start at step 2. Each step can use earlier responses as
``${stepN.path}``, and the last response has the token. ``${jwt}`` is the assertion that the entry's `jwt` describes
(RFC 7523).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.jwt import signed_token
from gateway.auth.mode import Dialogue, TokenExchangeMode
from gateway.auth.pasted_keys import certificate_fields
from gateway.auth.provider_responses import accepted_response, jwt_ends_at, token_at, token_paths
from gateway.auth.token_steps import step_call, step_values
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Step
from gateway.catalog.render import Moment
from gateway.catalog.value import flat_values
from gateway.oauth.token_responses import TokenRefused, dig, expires_at
from gateway.secret import Secret
from gateway.timestamps import iso

TOKEN_MEMBERS: Final = ("token", "refresh_token", "expires_at", "raw", "steps")


class TwoStep(TokenExchangeMode):
    """The credential is stored as ``{"type": "TWO_STEP", <fields of the entry>, "assertionOption"?, "token",
    "refresh_token"?, "expires_at"?, "raw", "steps"?}``. `raw` is the response that had the token. `steps` has the
    responses if there are several steps. After a refresh, `steps` is stored even if there is only one step: the
    response to the refresh updates the response of the last step.
    """

    name = "TWO_STEP"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return the credential to store. The `token` is optional; without it, the gateway requests the first one."""
        fields = CredentialForm(form, self.types())
        credential: dict[str, Any] = {"type": self.name}
        credential |= {
            name: fields.read_declared_field(name, setting) for name, setting in provider.credentials.items()
        }
        if provider.require_client_certificate:
            credential |= certificate_fields(fields, provider)
        credential["assertionOption"] = fields.mapping("assertionOption", tuple(provider.assertion_option)) or None
        token_members = [name for name in TOKEN_MEMBERS if name not in provider.credentials]
        if "token" in token_members:
            credential["token"] = fields.token("token", limit=16_384, required=False)
        if "refresh_token" in token_members:
            credential["refresh_token"] = fields.token("refresh_token", limit=16_384, required=False)
        ends_at = fields.moment("expires_at") if "expires_at" in token_members else None
        credential["expires_at"] = iso(ends_at) if ends_at else None
        fields.finish("raw")
        return {name: value for name, value in credential.items() if value not in ("", None)}

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        return dict(credential) if credential.get("token") else (yield from self._log_in(credential, context))

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Refresh with the refresh token if the entry has a `refresh_url`.

        Log in again if there is no refresh token or no `refresh_url`, or if the provider refuses the refresh.
        """
        if context.provider.refresh_url and credential.get("refresh_token"):
            try:
                return (yield from self._refresh_or_log_in(credential, context))
            except TokenRefused:
                pass
        return (yield from self._log_in(credential, context))

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        values = step_values(_responses(credential))
        return {**typed_values(credential, credential.get("token")), **_assertion_options(credential), **values}

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}

    def _log_in(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        provider = context.provider
        typed_fields = {
            name: value
            for name, value in credential.items()
            if name not in TOKEN_MEMBERS or name in provider.credentials
        }
        values = {**typed_values(typed_fields), **_assertion_options(typed_fields)}
        moment = Moment(clock.now())
        if provider.jwt is not None:
            values["jwt"] = signed_token(provider.jwt, context, values, moment.at)[0]
        first_step = Step(
            url=provider.token_url or "",
            method=provider.token_request_method or "POST",
            params=provider.token_params,
            body=provider.token_body,
            body_format=provider.body_format,
            headers=provider.token_headers,
        )
        responses: dict[str, Any] = {}
        for number, step in enumerate((first_step, *(provider.additional_steps or ())), start=1):
            template = _url_template(context, step, is_first=number == 1)
            known_values = {**values, **step_values(responses)}
            identity = self.identity(typed_fields)
            reply = yield step_call(
                context, template, step, known_values, moment, identity=identity, secrets=known_values.values()
            )
            responses[f"step{number}"] = accepted_response(reply)
        token_fields = self._read(provider, responses[f"step{len(responses)}"], reply.asked_at)
        return {**typed_fields, **token_fields, **({"steps": responses} if len(responses) > 1 else {})}

    def _refresh_or_log_in(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        provider = context.provider
        values = dict(self.values(credential))
        values["refresh_token"] = Secret(credential["refresh_token"])
        step = Step(
            url=provider.refresh_url or "",
            params=provider.refresh_params or {"refresh_token": "${credentials.refresh_token}"},
            body_format=provider.body_format,
            headers=provider.token_headers,
        )
        moment = Moment(clock.now())
        template, identity = provider.refresh_url or "", self.identity(credential)
        reply = yield step_call(context, template, step, values, moment, identity=identity, secrets=values.values())
        response = accepted_response(reply)
        steps = dict(_responses(credential))
        last_step = f"step{len(steps)}"
        steps[last_step] = _merge(steps[last_step], response)  # templates can use members that only the login returned
        return {**credential, **self._read(provider, response, reply.asked_at), "steps": steps}

    @staticmethod
    def _read(provider: Provider, response: dict[str, Any], asked_at: datetime) -> dict[str, Any]:
        token = token_at(response, token_paths(provider, "access_token"))
        ends_at = expires_at(provider, response, asked_at) or jwt_ends_at(token)
        response_paths = provider.token_response
        refresh_token = dig(response, (response_paths and response_paths.refresh_token_path) or "refresh_token")
        token_fields = {"token": token, "expires_at": iso(ends_at) if ends_at else None, "raw": response}
        if isinstance(refresh_token, str) and refresh_token:
            token_fields["refresh_token"] = refresh_token
        return {name: value for name, value in token_fields.items() if value is not None}


def _responses(credential: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the responses by ``stepN``. A login with a single request stores its response only in `raw`."""
    return credential.get("steps") or {"step1": credential.get("raw") or {}}


def _merge(old_response: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return `old_response` with the members of `response`. If both have an object with the same name, these two objects
    are merged in the same way."""
    merged_response = {**old_response, **response}
    for name, value in response.items():
        if isinstance(value, Mapping) and isinstance(old_value := old_response.get(name), Mapping):
            merged_response[name] = _merge(old_value, value)
    return merged_response


def _assertion_options(credential: Mapping[str, Any]) -> dict[str, Secret]:
    """Return the values for ``${assertionOption.name}``."""
    options = flat_values(credential.get("assertionOption") or {})
    return {f"assertionOption.{name}": Secret(text) for name, text in options.items()}


def _url_template(context: AuthContext, step: Step, *, is_first: bool) -> str:
    return context.template("token_url") if is_first else step.url
