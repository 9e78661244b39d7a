"""Builds the sequence of requests that together produce a token. Later requests can use parts of earlier responses."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.auth.context import AuthContext
from gateway.catalog.provider_parts import Step
from gateway.catalog.render import Moment
from gateway.catalog.value import flat_values
from gateway.oauth.token_requests import encode_call
from gateway.records.provider_call import ClientIdentity, ProviderCall
from gateway.secret import Secret


def step_call(
    context: AuthContext,
    template: str,
    step: Step,
    values: Mapping[str, Secret],
    moment: Moment,
    *,
    identity: ClientIdentity | None = None,
    secrets: Iterable[Secret] = (),
) -> ProviderCall:
    """Return the request of `step`. `template`: the template of the request's URL. `values`: values for the templates,
    in addition to the settings. `secrets`: values to mask in the provider's response. Raises InvalidRequest if a
    setting is missing.
    """
    url = context.fill_url(template, values)
    context = context.for_destinations(url)
    headers = {"Accept": "application/json", **context.texts(step.headers, values, moment=moment)}
    params = (
        context.texts(step.params, values, moment=moment)
        if step.body is None
        else context.json(step.body, values, moment)
    )
    body_format = "json" if step.body is not None else step.body_format or context.provider.body_format
    if not params and step.method == "POST" and body_format != "json":
        call = ProviderCall(url, headers, b"", (), step.method)
    else:
        call = encode_call(step.method, url, headers, params, body_format)
    return context.with_secrets(call, identity=identity, secrets=secrets)


def step_values(responses: Mapping[str, Any]) -> dict[str, Secret]:
    """Return the values for ``${stepN.path}``. `responses`: the response of each step, under the name ``stepN``."""
    return {name: Secret(text) for name, text in flat_values(responses).items()}
