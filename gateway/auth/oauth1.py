"""OAUTH1: the end user consents at the provider, and every request is signed with the token's secret (RFC 5849)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from gateway.auth.context import Context
from gateway.auth.form import Form
from gateway.auth.members import member_values
from gateway.auth.mode import Dialogue, Granted, GrantingMode, SetOut, Wish
from gateway.auth.oauth1_signer import FORM, OAuth1Keys, OAuth1Signer, authorization
from gateway.auth.oauth2 import told
from gateway.auth.signer import Signer
from gateway.auth.words import said, short
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.authorize import with_params
from gateway.oauth.token import TokenRefused, TokenUnavailable, retry_after
from gateway.records.call import Call, Reply
from gateway.secret import Secret

TOKEN_LIMIT: Final = 2048
REFUSED: Final = ("denied", "oauth_problem", "error")


class OAuth1(GrantingMode):
    """Held as ``{"type": "OAUTH1", "oauth_token", "oauth_token_secret", "raw"}``. It does not end by itself."""

    name = "OAUTH1"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = Form(form, self.types())
        held: dict[str, Any] = {"type": self.name}
        for name in ("oauth_token", "oauth_token_secret"):
            held[name] = fields.token(name, limit=TOKEN_LIMIT)
        fields.finish("raw")
        return {**held, "raw": {name: value for name, value in form.items() if name != "raw"}}

    def set_out(self, context: Context, wish: Wish) -> Dialogue[SetOut]:
        """Temporary credentials (RFC 5849 §2.1), then the consent page (§2.2)."""
        provider = context.provider
        callback = with_params(context.redirect_uri, {"state": wish.state})
        form = context.texts(provider.request_params)
        keys = keys_of(context.toward(context.url("request_url")))
        granted, _ = yield from self._ask(context, "request_url", keys, {"oauth_callback": callback}, form)
        params = {**context.texts(provider.authorization_params), **wish.params, "oauth_token": granted["oauth_token"]}
        url = with_params(context.url("authorization_url"), {k: v for k, v in params.items() if v != "undefined"})
        kept = {name: granted[name] for name in ("oauth_token", "oauth_token_secret")}
        return SetOut(url, kept)

    def answered(self, context: Context, query: Mapping[str, str]) -> bool:
        return "oauth_token" in query or any(name in query for name in REFUSED)

    def arrive(self, context: Context, kept: Mapping[str, Any], query: Mapping[str, str]) -> Dialogue[Granted]:
        """Token credentials for the verifier (RFC 5849 §2.3)."""
        provider = context.provider
        refused = next((query[name] for name in REFUSED if name in query), None)
        if refused is not None or not query.get("oauth_verifier"):
            raise InvalidRequest(
                "authorization_refused",
                f"{provider.display_name} did not grant access{f': {short(refused)}' if refused else ''}. Nothing was "
                "changed; start again to allow it.",
            )
        if query.get("oauth_token") != kept["oauth_token"]:
            raise InvalidRequest("invalid_state", "The answer belongs to another authorization. Start again.")
        at = context.toward(context.url("token_url"))
        keys = keys_of(at, kept["oauth_token"], Secret(kept["oauth_token_secret"]))
        answer, _ = yield from self._ask(context, "token_url", keys, {"oauth_verifier": query["oauth_verifier"]}, {})
        held = {"type": self.name, **{name: answer[name] for name in ("oauth_token", "oauth_token_secret")}}
        return Granted({**held, "raw": answer}, told(provider, answer, query))

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        return member_values(held)

    def signer(self, held: Mapping[str, Any], context: Context) -> Signer:
        return OAuth1Signer(keys_of(context, held["oauth_token"], Secret(held["oauth_token_secret"])))

    @staticmethod
    def _ask(
        context: Context, place: str, keys: OAuth1Keys, extra: Mapping[str, str], form: Mapping[str, str]
    ) -> Dialogue[tuple[dict[str, str], Reply]]:
        url = context.url(place)
        body = urlencode(form)
        headers = {"Authorization": authorization(keys, "POST", url, body, extra=extra)}
        if body:
            headers["Content-Type"] = FORM
        secrets = [keys.client_secret, Secret(extra.get("oauth_verifier", ""))]
        secrets += [keys.token_secret] if keys.token_secret else []
        reply = yield context.told(Call(url, headers, body.encode()), secrets=secrets)
        return read_credentials(reply), reply


def keys_of(context: Context, token: str | None = None, token_secret: Secret | None = None) -> OAuth1Keys:
    """The integration's keys, with a token's if given, for requests to where `context` leads."""
    client = context.client()
    method = context.provider.signature_method or "HMAC-SHA1"
    secret = client.client_secret or Secret("")
    if method == "RSA-SHA1":
        secret = context.integration.private_key or secret
    return OAuth1Keys(client.client_id, secret, token, token_secret, method)


def read_credentials(reply: Reply) -> dict[str, str]:
    """The form of RFC 5849 §2.1 and §2.3, with a token and its secret in it. Raises TokenRefused, TokenUnavailable."""
    if reply.status >= 500 or reply.status in {408, 429}:
        raise TokenUnavailable(f"the token endpoint answered {reply.status}", retry_after(reply.headers))
    answer = dict(parse_qsl(reply.body.decode("utf-8", "replace").strip(), keep_blank_values=True))
    if 200 <= reply.status < 300 and answer.get("oauth_token") and "oauth_token_secret" in answer:
        return answer
    words = short(answer.get("oauth_problem", "")) or said(reply)
    raise TokenRefused("credentials_refused", f"it answered {reply.status}" + (f": {words}" if words else ""))
