"""The meaning of each failure and the action that helps, by kind and reason: one sentence each, for operators."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from gateway.api.connection_json import stamp
from gateway.oauth.error_codes import CLIENT_REFUSED, GRANT_GONE
from gateway.records.traffic import PlaceTotal

GOES_ON: Final = (timedelta(minutes=10), timedelta(hours=1))
"""Failures whose newest occurrence is younger than this come before others, whatever their number."""


BY_REFUSED_CLIENT: Final = frozenset({"reconnect_needed", "token_request_failed"})
"""The errors that calls and authorizations get while the provider refuses the app itself."""
STORE_SETTLED: Final = timedelta(seconds=30)
OVER_ACCEPTED: Final = (
    "It is over: the provider has accepted the app since. Connections recover with their next refresh."
)
OVER_AUTHORIZED: Final = "It is over: an authorization has succeeded since."
OVER_STORED: Final = "It is over: the database answers, and takes what is written."


class FailureCause(NamedTuple):
    """A failure's meaning (`why`) and the next action. `do` and `look` begin with a verb. `look`: what to open in a
    list; left out on a single item's own page."""

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
    **dict.fromkeys(CLIENT_REFUSED, _REFUSED_CLIENT),
    "forbidden": _RULES,
    "too_many_request": FailureCause(
        "A key sends more than its rate or budget allows.",
        "Mint a key with a higher rate, or revoke it if nobody knows this use.",
        "Open a call of this list: it names the key.",
    ),
    "unknown_connection": FailureCause(
        "Calls name connections that are not there, or that their key may not use.",
        "Check the ids that are sent, or let the end user connect.",
        "Open a call of this list: it names the key.",
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
        "The cause is shown above while the fault lasts, and stays in the gateway's log.",
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
    """Return the cause. `reason`: an error code, a provider's code for a refused refresh, or a status."""
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


def failures(places: Iterable[PlaceTotal], now: datetime, *, store_healthy: bool = False) -> list[dict[str, Any]]:
    """Return groups of failures with their meaning and the action that helps: ongoing ones first, then by number.

    `store_healthy`: the database can be read and written now.
    """
    there = list(places)
    refusals = _ClientRefusals(there)
    authorized_at = {one.integration_id: one.last_at for one in there if one.kind == "authorization" and not one.reason}
    groups = []
    for one in there:
        if not one.reason:
            continue
        cause = refusals.cause(one.kind, one.reason, one.integration_id, one.last_at)
        over = None
        if cause is _REFUSED_CLIENT and refusals.was_accepted_after(one.integration_id, one.last_at):
            over = OVER_ACCEPTED
        elif one.reason == "token_request_failed" and authorized_at.get(one.integration_id, one.last_at) > one.last_at:
            over = OVER_AUTHORIZED
        elif one.reason == "store_unavailable" and store_healthy and now - one.last_at > STORE_SETTLED:
            over = OVER_STORED
        groups.append(_group(one, now, cause, over))
    groups.sort(key=lambda one: (one.pop("age"), -one["count"]))
    return groups


def client_refusal(places: Iterable[PlaceTotal], now: datetime) -> FailureCause | None:
    """Return the cause if the provider refused the app itself at a refresh in the last hour and has not accepted it since."""
    refusals = _ClientRefusals(list(places))
    since = [at for key, at in refusals.refused_at.items() if not refusals.was_accepted_after(key, at)]
    return _REFUSED_CLIENT if any(now - at <= GOES_ON[1] for at in since) else None


def cause_at(places: Iterable[PlaceTotal], kind: str, reason: str, integration_id: str, at: datetime) -> FailureCause:
    """Return the cause of one failure, given the other failures of its time."""
    return _ClientRefusals(list(places)).cause(kind, reason, integration_id, at)


class _ClientRefusals:
    """The times at which providers last refused an integration's app at a refresh, and last accepted it: at a refresh
    or at the exchange of a code."""

    def __init__(self, places: Iterable[PlaceTotal]) -> None:
        self.refused_at: dict[str, datetime] = {}
        self.accepted_at: dict[str, datetime] = {}
        for one in places:
            if not one.reason and one.kind in ("refresh", "authorization"):
                newest = self.accepted_at
            elif one.kind == "refresh" and cause_of(one.kind, one.reason) is _REFUSED_CLIENT:
                newest = self.refused_at
            else:
                continue
            newest[one.integration_id] = max(newest.get(one.integration_id, one.last_at), one.last_at)

    def was_accepted_after(self, integration_id: str, at: datetime) -> bool:
        """Return whether the app was accepted after `at`."""
        accepted = self.accepted_at.get(integration_id)
        return accepted is not None and accepted > at

    def cause(self, kind: str, reason: str, integration_id: str, at: datetime) -> FailureCause:
        """Return the cause: the refused app for errors of calls and authorizations during the refusal, else by reason."""
        refused = self.refused_at.get(integration_id)
        if refused is None or reason not in BY_REFUSED_CLIENT:
            return cause_of(kind, reason)
        ended = self.was_accepted_after(integration_id, refused) and not self.was_accepted_after(integration_id, at)
        return cause_of(kind, reason) if ended else _REFUSED_CLIENT


def _group(one: PlaceTotal, now: datetime, cause: FailureCause, over: str | None) -> dict[str, Any]:
    age = max(sum(now - one.last_at > limit for limit in GOES_ON), over is not None)
    return {
        "kind": one.kind,
        "integration": one.integration_id,
        "reason": one.reason,
        "is_code": not one.reason.isdigit(),
        "count": one.calls,
        "newest_at": stamp(one.last_at),
        "why": cause.why,
        "do": over or " ".join(filter(None, (cause.look, cause.do))),
        "goes_on": age == 0,
        "age": age,
    }
