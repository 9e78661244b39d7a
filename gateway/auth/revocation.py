"""Revokes tokens at a provider, as RFC 7009 defines or with the call that the provider's entry describes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.auth.context import AuthContext
from gateway.auth.mode import Dialogue, RevocableToken, TokenRevocation
from gateway.auth.provider_responses import refusal_text, safe_text
from gateway.catalog.provider_parts import TokenCall
from gateway.oauth.token_requests import authenticate, encode_call, rename_params
from gateway.oauth.token_responses import TokenUnavailable, parse_object
from gateway.records.provider_call import ProviderCall, Reply
from gateway.secret import Secret

RevocationVerdict = Literal["revoked", "already_invalid", "unsupported", "not_offered", "failed", "unavailable"]

STANDARD_CALL: Final = TokenCall()
GONE_ERRORS: Final = frozenset({"invalid_token", "token_not_found", "token_revoked", "token_expired", "invalid_grant"})


@dataclass(frozen=True, slots=True)
class RevocationOutcome:
    """The result of revoking one token at its provider.

    ``revoked``: the provider revoked the token. ``already_invalid``: the token was already invalid. ``unsupported``:
    the provider does not revoke tokens of this type. ``not_offered``: the entry has no revocation call. ``failed``: the
    provider refused to revoke the token. ``unavailable``: the provider was not reachable or returned a temporary error.
    `token`: the token's type hint, or ``credential`` if no call could be made. `detail`: the provider's text, with
    secrets masked.
    """

    token: str
    outcome: RevocationVerdict
    detail: str | None = None

    @property
    def may_still_work(self) -> bool:
        """Whether the provider may still accept the token."""
        return self.outcome not in {"revoked", "already_invalid"}


def revocable(context: AuthContext, tokens: Sequence[RevocableToken]) -> list[RevocableToken]:
    """Return the tokens that the entry's revocation call accepts. If the credential has no such token, return all
    `tokens`."""
    spec = context.provider.revocation or STANDARD_CALL
    return [token for token in tokens if spec.tokens in {None, "both", token.hint}] or list(tokens)


def revoke(
    context: AuthContext, spec: TokenRevocation | None, tokens: Sequence[RevocableToken], credential: dict[str, Secret]
) -> Dialogue[list[RevocationOutcome]]:
    """Revoke `tokens` with one call each. `spec`: the revocation endpoint, None if the provider has no revocation call.
    If the provider refuses, the refusal is returned as an outcome, not raised. Raises InvalidRequest if a value of the
    connection cannot be sent.
    """
    outcomes = []
    for token in tokens:
        if spec is None:
            outcomes.append(RevocationOutcome(token.hint, "not_offered"))
            continue
        call = _call(context, spec, token, credential)
        try:
            reply = yield call
        except TokenUnavailable as fault:
            outcomes.append(RevocationOutcome(token.hint, "unavailable", call.scrubbed(safe_text(fault.reason))))
        else:
            outcomes.append(_outcome(token, call, reply))
    return outcomes


def _call(
    context: AuthContext, revocation: TokenRevocation, token: RevocableToken, credential: dict[str, Secret]
) -> ProviderCall:
    """Return the request of RFC 7009 §2.1, modified as the entry says."""
    spec, context = context.provider.revocation or STANDARD_CALL, context.for_destinations(revocation.url)
    values = {**credential, "token": token.token}
    headers = {"Accept": "application/json", **context.texts(spec.headers, values)}
    params = {"token": token.token.reveal(), "token_type_hint": token.hint, **context.texts(spec.params, values)}
    secrets = [token.token.reveal(), *(secret.reveal() for secret in credential.values())]
    method = spec.auth_method or revocation.auth_method
    if method == "bearer":
        bearer_token = credential.get("accessToken", token.token)
        headers["Authorization"] = f"Bearer {bearer_token.reveal()}"
    elif (
        method != "none"
        and revocation.client is not None
        and not any(name.lower() == "authorization" for name in headers)
    ):
        authenticate(revocation.client, method, headers, params)
        secrets += revocation.client.secrets()
    params = rename_params(params, spec.param_renames)
    call = encode_call(spec.method, revocation.url, headers, params, spec.body_format, secrets=tuple(secrets))
    return context.with_secrets(call, identity=revocation.identity)


def _outcome(token: RevocableToken, call: ProviderCall, reply: Reply) -> RevocationOutcome:
    response = parse_object(reply.headers, reply.body) or {}
    error = response.get("error")
    code = error if isinstance(error, str) else ""
    is_refused = response.get("ok") is False or bool(error)  # some providers report a refusal with status 200
    if 200 <= reply.status < 300 and not is_refused:
        return RevocationOutcome(token.hint, "revoked")
    provider_text = call.scrubbed(refusal_text(reply))
    detail = f"it returned {reply.status}" + (f": {provider_text}" if provider_text else "")
    if code in GONE_ERRORS or reply.status in {404, 410}:
        return RevocationOutcome(token.hint, "already_invalid", detail)
    if code == "unsupported_token_type":
        return RevocationOutcome(token.hint, "unsupported", detail)
    if reply.status >= 500 or reply.status in {408, 429}:
        return RevocationOutcome(token.hint, "unavailable", detail)
    return RevocationOutcome(token.hint, "failed", detail)
