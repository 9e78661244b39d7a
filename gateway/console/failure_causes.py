"""Texts for operators: the meaning of each failure, and the action that helps, by kind and reason."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from gateway.api.connection_json import timestamp_with_offset
from gateway.oauth.error_codes import CLIENT_REFUSED, GRANT_GONE
from gateway.records.traffic import PlaceTotal

AGE_LIMITS: Final = (timedelta(minutes=10), timedelta(hours=1))
"""Groups of failures are sorted by the age of their newest failure: up to the first limit, up to the second limit, and
older. Groups of the same age are sorted by their number of failures."""
BY_REFUSED_CLIENT: Final = frozenset({"reconnect_needed", "token_request_failed"})
"""The error codes of calls and authorizations that fail because the provider refuses the app itself."""
STORE_RECOVERED_AFTER: Final = timedelta(seconds=30)
"""If the database is healthy and its newest failure is older than this, the database counts as recovered."""
RESOLVED_ACCEPTED: Final = "Resolved: the provider accepts the app again. Connections recover with their next refresh."
RESOLVED_AUTHORIZED: Final = "Resolved: a later authorization succeeded."
RESOLVED_STORED: Final = "Resolved: the database can be read and written."


class FailureCause(NamedTuple):
    """The meaning of a failure (`why`) and the next action (`do`).

    `look`: what the operator should open in a list of failures; not shown on the page of a single operation.
    """

    why: str
    do: str
    look: str = ""


_GONE: Final = FailureCause(
    "The end user or an administrator revoked the access, or the refresh token has expired.",
    "Let the end user connect again: create the link on the connection's page.",
)
_REFUSED_CLIENT: Final = FailureCause(
    "The provider refuses the app itself: its client secret has expired, was replaced, or is wrong.",
    "Create a new secret in the provider's developer console, write it into the integration and reload. "
    "Connections recover with their next refresh; end users need not connect again.",
)
_DOWN: Final = FailureCause(
    "The provider does not respond, or its response is not valid HTTP.",
    "Check the provider's status page. The gateway keeps trying; the application may send failed calls again.",
)
_RULES: Final = FailureCause(
    "A key sent requests that its scopes, connections or rules do not allow: a mistake, or a stolen key.",
    "Revoke the key if nobody recognizes this use; else mint a key that allows it.",
    "Open a call in this list to see its key.",
)

_BY_REASON: Final = {
    "upstream_unreachable": _DOWN,
    "upstream_timeout": FailureCause(
        "The provider did not respond within the call's timeout.",
        "Check the provider's status page. For calls that are always slow, raise the header Gateway-Timeout.",
    ),
    "upstream_tls": FailureCause(
        "The provider's TLS certificate is not valid for this machine.",
        "Check the certificate, and this machine's clock and CA certificates.",
    ),
    "upstream_protocol": _DOWN,
    "token_endpoint_unavailable": FailureCause(
        "The provider's token endpoint does not respond, limits the rate or returns errors, so expired tokens are not refreshed.",
        "Check the provider's status page. No token is lost: the gateway retries automatically.",
        "Open an entry in this list to see which of these it is.",
    ),
    "reconnect_needed": FailureCause(
        "The connection's credential no longer works, so the gateway refuses its calls.",
        "Open the connection to see why, and whether the end user must connect again.",
    ),
    **dict.fromkeys(CLIENT_REFUSED, _REFUSED_CLIENT),
    "forbidden": _RULES,
    "too_many_request": FailureCause(
        "A key sends more calls than its rate or budget allows.",
        "Mint a key with a higher rate or budget, or revoke the key if nobody recognizes this use.",
        "Open a call in this list to see its key.",
    ),
    "unknown_connection": FailureCause(
        "Calls name connections that do not exist, or that their key may not use.",
        "Check the ids that the application sends, or let the end user connect.",
        "Open a call in this list to see its key.",
    ),
    "unknown_provider_config": FailureCause(
        "Calls name an integration that does not exist.",
        "Correct Provider-Config-Key in the application, or declare the integration.",
        "Open a call in this list to see its key.",
    ),
    "invalid_headers": FailureCause(
        "Calls lack a header that the gateway needs, or have one with a wrong value.",
        "Correct the application; the response to such a call names the header.",
        "Open a call in this list to see its path and key.",
    ),
    "token_request_failed": FailureCause(
        "The provider refused to exchange an authorization code for tokens.",
        "Compare client ID, client secret and callback URL with the provider's developer console.",
        "Open an entry in this list to see the provider's message.",
    ),
    "authorization_refused": FailureCause(
        "The provider, or the end user on its page, refused the authorization.",
        "Correct the callback URL registered at the provider if the message mentions redirect_uri.",
        "Open an entry in this list to see the provider's message.",
    ),
    "invalid_state": FailureCause(
        "Browsers returned from an authorization that this gateway did not start, or that has expired.",
        "Check that server.public_url is the URL that browsers use, and that all nodes share one database.",
    ),
    "event_not_delivered": FailureCause(
        "The application's webhook URL does not accept events.",
        "Fix the receiver: Events shows its last response. Then use Events to send the undelivered events again.",
    ),
    "invalid_webhook_signature": FailureCause(
        "Webhooks are not signed as configured, or do not come from the provider.",
        "Compare the integration's webhook secret with the provider's developer console.",
    ),
    "credential_unreadable": FailureCause(
        "A stored credential was changed or damaged.", "Find out what changed the database, and restore a backup."
    ),
    "store_unavailable": FailureCause(
        "The gateway's database could not be used: it was unreachable, its file was missing, or its disk was full.",
        "See the cause at the top of this page while the fault lasts, and later in the gateway's log.",
    ),
    "busy": FailureCause(
        "The gateway itself refused calls: the provider did not respond to earlier calls, or too many were in flight.",
        "Check the provider's status page; the gateway keeps trying. If the provider responds, raise egress.limits.",
    ),
    "address_refused": FailureCause(
        "A host resolves to an IP address that egress.allow does not list.",
        "Add the network to egress.allow if it is yours.",
    ),
    "client_left": FailureCause(
        "Callers close the connection before the response arrives.", "Raise the caller's timeout."
    ),
    "rotation_lost": FailureCause(
        "A gateway process ended while the provider replaced a refresh token, so the new token is lost.", _GONE.do
    ),
    "401": FailureCause(
        "The provider rejects the credential, because it was revoked, replaced or blocked.",
        "Refresh the token on the connection's page; if that fails, let the end user connect again.",
    ),
    "403": FailureCause(
        "The provider forbids the call: a permission or scope is missing.",
        "Add the scopes that the call needs to the integration; the end user must then connect again.",
    ),
    "404": FailureCause("The provider has nothing at these paths.", "Check the paths that the application sends."),
    "429": FailureCause(
        "The provider limits the rate: too many calls.",
        "Send fewer calls, or spread them over time. With the header Retries, a call waits for the provider's Retry-After.",
    ),
}
_CLIENT: Final = FailureCause(
    "The provider reports these requests as invalid.",
    "Compare method, path and body with the provider's documentation.",
    "Open a call in this list to see its path.",
)
_SERVER: Final = FailureCause("The provider returns server errors.", "Check the provider's status page.")
_OTHER: Final = FailureCause(
    "", "", "Open an entry in this list to see the request. docs/http-api.md explains the error code."
)


def cause_of(kind: str, reason: str) -> FailureCause:
    """Return the cause of a failure.

    `kind`: the kind of the operation. `reason`: an error code of the gateway, a provider's error code for a refused
    refresh, or an HTTP status.
    """
    if reason in GRANT_GONE:
        return _GONE
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if kind == "refresh":
        return FailureCause(
            "The provider's token endpoint refuses to refresh the token.",
            "Compare client ID and client secret with the provider's developer console.",
            "Open an entry in this list to see the provider's message.",
        )
    if reason.startswith("4") and reason.isdigit():
        return _CLIENT
    return _SERVER if reason.startswith("5") and reason.isdigit() else _OTHER


def failures(places: Iterable[PlaceTotal], now: datetime, *, store_healthy: bool = False) -> list[dict[str, Any]]:
    """Return groups of failures with their meaning and the action that helps, sorted as `AGE_LIMITS` describes.

    `places`: the numbers of successes and failures, by integration, kind and reason. `store_healthy`: whether the
    database can be read and written now.
    """
    totals = list(places)
    refusals = _ClientRefusals(totals)
    authorized_at = {
        place.integration_id: place.last_at for place in totals if place.kind == "authorization" and not place.reason
    }
    groups = []
    for place in totals:
        if not place.reason:
            continue
        cause = refusals.cause(place.kind, place.reason, place.integration_id, place.last_at)
        resolved_text = None
        if cause is _REFUSED_CLIENT and refusals.was_accepted_after(place.integration_id, place.last_at):
            resolved_text = RESOLVED_ACCEPTED
        elif (
            place.reason == "token_request_failed"
            and authorized_at.get(place.integration_id, place.last_at) > place.last_at
        ):
            resolved_text = RESOLVED_AUTHORIZED
        elif place.reason == "store_unavailable" and store_healthy and now - place.last_at > STORE_RECOVERED_AFTER:
            resolved_text = RESOLVED_STORED
        groups.append(_group(place, now, cause, resolved_text))
    groups.sort(key=lambda group: (group.pop("age"), -group["count"]))
    return groups


def client_refusal(places: Iterable[PlaceTotal], now: datetime) -> FailureCause | None:
    """Return the cause if the provider refused the app itself at a refresh in the last hour and has not accepted it
    since; else None."""
    refusals = _ClientRefusals(list(places))
    unresolved_times = [
        refused_at
        for key, refused_at in refusals.refused_at.items()
        if not refusals.was_accepted_after(key, refused_at)
    ]
    return _REFUSED_CLIENT if any(now - refused_at <= AGE_LIMITS[1] for refused_at in unresolved_times) else None


def cause_of_failure(
    places: Iterable[PlaceTotal], kind: str, reason: str, integration_id: str, failed_at: datetime
) -> FailureCause:
    """Return the cause of one failure. `places`: the failures and successes in the time span around the failure."""
    return _ClientRefusals(list(places)).cause(kind, reason, integration_id, failed_at)


class _ClientRefusals:
    """When providers last refused and last accepted the app of each integration, by integration id.

    Refusals are counted at refreshes only; acceptances at refreshes and at exchanges of a code for tokens.
    """

    def __init__(self, places: Iterable[PlaceTotal]) -> None:
        self.refused_at: dict[str, datetime] = {}
        self.accepted_at: dict[str, datetime] = {}
        for place in places:
            if not place.reason and place.kind in ("refresh", "authorization"):
                newest_times = self.accepted_at
            elif place.kind == "refresh" and cause_of(place.kind, place.reason) is _REFUSED_CLIENT:
                newest_times = self.refused_at
            else:
                continue
            newest_times[place.integration_id] = max(
                newest_times.get(place.integration_id, place.last_at), place.last_at
            )

    def was_accepted_after(self, integration_id: str, refused_at: datetime) -> bool:
        """Return whether the app was accepted after `refused_at`."""
        accepted_at = self.accepted_at.get(integration_id)
        return accepted_at is not None and accepted_at > refused_at

    def cause(self, kind: str, reason: str, integration_id: str, failed_at: datetime) -> FailureCause:
        """Return the cause of one failure.

        A failure in `BY_REFUSED_CLIENT` is caused by the refused app if the provider refused the app at that time. The
        cause of any other failure depends on its reason.
        """
        refused_at = self.refused_at.get(integration_id)
        if refused_at is None or reason not in BY_REFUSED_CLIENT:
            return cause_of(kind, reason)
        is_over = self.was_accepted_after(integration_id, refused_at) and not self.was_accepted_after(
            integration_id, failed_at
        )
        return cause_of(kind, reason) if is_over else _REFUSED_CLIENT


def _group(place: PlaceTotal, now: datetime, cause: FailureCause, resolved_text: str | None) -> dict[str, Any]:
    age = max(sum(now - place.last_at > limit for limit in AGE_LIMITS), resolved_text is not None)
    return {
        "kind": place.kind,
        "integration": place.integration_id,
        "reason": place.reason,
        "is_code": not place.reason.isdigit(),
        "count": place.calls,
        "newest_at": timestamp_with_offset(place.last_at),
        "why": cause.why,
        "do": resolved_text or " ".join(filter(None, (cause.look, cause.do))),
        "goes_on": age == 0,
        "age": age,
    }
