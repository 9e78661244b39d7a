"""The meaning of each failure and what helps, by kind and reason: one sentence each, for operators."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from gateway.api.connection_json import stamp
from gateway.oauth.error_codes import GRANT_GONE
from gateway.records.traffic import PlaceTotal

GOES_ON: Final = (timedelta(minutes=10), timedelta(hours=1))
"""A failure whose newest is younger stands above the others, however many these are."""


BY_REFUSED_CLIENT: Final = frozenset({"reconnect_needed", "token_request_failed"})
"""What calls and authorizations meet while the provider refuses the app itself."""
OVER: Final = "It is over: a refresh has succeeded since."


class FailureCause(NamedTuple):
    """`do` and `look` begin with a verb. `look`: at one of a list, where the page of one would repeat itself."""

    why: str
    do: str
    look: str = ""


_GONE: Final = FailureCause(
    "The end user, or an administrator, took the access back, or the refresh token has ended.",
    "Let the end user connect again: the connection's page makes the link.",
)
_REFUSED_CLIENT: Final = FailureCause(
    "The provider refuses the app itself: its client secret has expired, was replaced, or is wrong.",
    "Make a new secret in the provider's console, write it into the integration, and reload. "
    "Connections recover with their next refresh; no end user connects again.",
)
_DOWN: Final = FailureCause(
    "The provider does not answer, or not as HTTP.",
    "Look at its status page. The gateway tries again by itself; calls that fail meanwhile may be sent again.",
)
_RULES: Final = FailureCause(
    "A key requested what its scopes, connections or rules do not allow: a mistake, or a key in wrong hands.",
    "Revoke the key if nobody knows this use; else mint one with a rule for it.",
    "Open a call of this list: it names the key.",
)

_BY_REASON: Final = {
    "upstream_unreachable": _DOWN,
    "upstream_timeout": FailureCause(
        "The provider took longer than the call may wait.",
        "Look at its status page; raise Gateway-Timeout for calls that are slow by nature.",
    ),
    "upstream_tls": FailureCause(
        "The provider's certificate does not hold.",
        "Check its certificate, and the clock and certificates of this machine.",
    ),
    "upstream_protocol": _DOWN,
    "token_endpoint_unavailable": FailureCause(
        "The provider's token endpoint does not answer, limits the rate or has an error, so an expired token cannot be replaced.",
        "Look at its status page. Nothing is lost: the gateway tries again by itself.",
        "Open a connection of this list: it says which.",
    ),
    "reconnect_needed": FailureCause(
        "The connection's credential has ended, so its calls are refused.",
        "Open the connection: it says why, and whether the end user must connect again.",
    ),
    "invalid_client": _REFUSED_CLIENT,
    "unauthorized_client": _REFUSED_CLIENT,
    "forbidden": _RULES,
    "too_many_request": FailureCause(
        "A key sends more than its rate or budget allows.",
        "Mint a key with a higher rate, or revoke it if nobody knows this use.",
        "Open a call of this list: it names the key.",
    ),
    "unknown_connection": FailureCause(
        "The application names connections that are not there.", "Check the ids it sends, or let the end user connect."
    ),
    "token_request_failed": FailureCause(
        "The provider refused to exchange the code of an authorization.",
        "Compare client ID, secret and callback address with the provider's console.",
        "Open one of this list: it has the provider's words.",
    ),
    "authorization_refused": FailureCause(
        "The provider, or the end user on its page, refused the authorization.",
        "A redirect_uri that does not match is registered wrongly at the provider.",
        "Open one of this list: it has the provider's words.",
    ),
    "invalid_state": FailureCause(
        "Browsers came back with an authorization that this gateway has not begun, or that is older than its time.",
        "Check that server.public_url is the address that browsers use, and that all nodes share one store.",
    ),
    "event_not_delivered": FailureCause(
        "The application's webhook address does not take events.",
        "Fix what answers there: Events names the address and its last answer. Send again there what was given up.",
    ),
    "invalid_webhook_signature": FailureCause(
        "A provider's webhook is not signed as configured, or somebody else sends them.",
        "Compare the webhook secret of the integration with the provider's console.",
    ),
    "credential_unreadable": FailureCause(
        "A stored credential was changed or damaged.", "Find out what changed the database, and restore a backup."
    ),
    "store_unavailable": FailureCause(
        "The gateway's database could not be used: it was away, its file was gone, or its disk was full.",
        "See the cause in the gateway's log, in the message of one of these answers.",
    ),
    "busy": FailureCause(
        "The gateway refused calls itself: the provider has not answered the last ones, or too many were outstanding.",
        "Does it not answer? Look at its status page, and the gateway tries again by itself. Else raise egress.limits.",
    ),
    "address_refused": FailureCause(
        "A host resolves to an address that egress.allow does not name.",
        "Add the network to egress.allow if it is yours.",
    ),
    "client_left": FailureCause("Callers hang up before the answer is there.", "Raise the caller's own time limit."),
    "rotation_lost": FailureCause(
        "A process died in the moment in which the provider replaced a refresh token.", _GONE.do
    ),
    "401": FailureCause(
        "The provider rejects the credential: revoked, replaced or blocked there.",
        "Refresh the token on the connection's page; if that fails, let the end user connect again.",
    ),
    "403": FailureCause(
        "The provider forbids the call: a permission or scope is missing.",
        "Compare the integration's scopes with what the call needs; the end user must then connect again.",
    ),
    "404": FailureCause("The provider has nothing at these paths.", "Check the paths that the application sends."),
    "429": FailureCause(
        "The provider limits the rate: too many calls.",
        "Send less, or spread it; a call with the header Retries waits as long as the provider's Retry-After says.",
    ),
}
_CLIENT: Final = FailureCause(
    "The provider refuses these requests as they are.",
    "Compare method, path and body with its documentation.",
    "Open a call of this list for its path.",
)
_SERVER: Final = FailureCause("The provider answers with errors of its own.", "Look at its status page.")
_OTHER: Final = FailureCause("", "", "Open one of this list.")


def cause_of(kind: str, reason: str) -> FailureCause:
    """`reason`: an error code, a provider's code for a refused refresh, or a status."""
    if reason in GRANT_GONE:
        return _GONE
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if kind == "refresh":
        return FailureCause(
            "The provider's token endpoint refuses to refresh.",
            "Compare client ID and secret with the provider's console.",
            "Open one of this list: it has the provider's words.",
        )
    if reason.startswith("4") and reason.isdigit():
        return _CLIENT
    return _SERVER if reason.startswith("5") and reason.isdigit() else _OTHER


def failures(places: Iterable[PlaceTotal], now: datetime) -> list[dict[str, Any]]:
    """Groups of failures with what they mean and what helps: those that go on first, of these the most frequent."""
    there = list(places)
    refusals = _client_refusals(there)
    groups = [_group(one, now, refusals.get(one.integration_id)) for one in there if one.reason]
    groups.sort(key=lambda one: (one.pop("age"), -one["count"]))
    return groups


def client_refusal(places: Iterable[PlaceTotal], now: datetime) -> FailureCause | None:
    """The provider has refused the app itself within the last hour, at a refresh, and none has succeeded since."""
    refusals = _client_refusals(list(places)).values()
    return _REFUSED_CLIENT if any(not one.over and now - one.last_at <= GOES_ON[1] for one in refusals) else None


class _ClientRefusal(NamedTuple):
    """`over`: a refresh with the same app succeeded after the last refusal."""

    last_at: datetime
    over: bool


def _client_refusals(places: Iterable[PlaceTotal]) -> dict[str, _ClientRefusal]:
    """Return, by integration, when the provider last refused the app at a refresh, and whether a refresh succeeded after that."""
    refused, succeeded = dict[str, datetime](), dict[str, datetime]()
    for one in places:
        if one.kind == "refresh" and (not one.reason or _cause(one) is _REFUSED_CLIENT):
            newest = refused if one.reason else succeeded
            newest[one.integration_id] = max(newest.get(one.integration_id, one.last_at), one.last_at)
    return {key: _ClientRefusal(at, key in succeeded and succeeded[key] > at) for key, at in refused.items()}


def _cause(one: PlaceTotal) -> FailureCause:
    return cause_of(one.kind, one.reason)


def _group(one: PlaceTotal, now: datetime, refusal: _ClientRefusal | None) -> dict[str, Any]:
    """`refusal`: that of the integration's app, by which its connections need no end user."""
    cause = _REFUSED_CLIENT if refusal is not None and one.reason in BY_REFUSED_CLIENT else _cause(one)
    over = refusal is not None and refusal.over and cause is _REFUSED_CLIENT
    age = sum(now - one.last_at > age for age in GOES_ON)
    return {
        "kind": one.kind,
        "integration": one.integration_id,
        "reason": one.reason,
        "is_code": not one.reason.isdigit(),
        "count": one.calls,
        "newest_at": stamp(one.last_at),
        "why": cause.why,
        "do": OVER if over else " ".join(filter(None, (cause.look, cause.do))),
        "goes_on": not over and age == 0,
        "age": max(age, 1) if over else age,
    }
