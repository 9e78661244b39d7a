"""Limits how many authorizations a connect session may start without finishing them."""

from typing import Final

from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.authorization.results import LIFETIME
from gateway.errors import TooManyRequests
from gateway.records.connecting import ConnectSession

MAX_OPEN: Final = 100
"""Maximum number of authorizations that a session may start, and not finish, in `WINDOW_S`, in this process. Each takes
up to 8 KB of the database for up to an hour."""
WINDOW_S: Final = LIFETIME.total_seconds()


class OpenAuthorizations:
    """Counts the authorizations of each connect session that were started and not finished, in this process."""

    def __init__(self) -> None:
        self._open: WindowCounter[str] = WindowCounter(WINDOW_S)

    def add(self, session: ConnectSession) -> None:
        """Count an authorization that `session` starts. Raises TooManyRequests if `MAX_OPEN` of them are open."""
        self._open.restart_if_over()
        if self._open[session.digest] >= MAX_OPEN:
            wait_s = self._open.left_s
            fix = f"Finish one that is open in another window, or try again in {wait_s} s."
            raise TooManyRequests(
                "too_many_request",
                f"More than {MAX_OPEN} authorizations were started with this link and not finished. {fix}",
                payload={"limit": MAX_OPEN, **rule_and_fix("authorizations_open", fix)},
                retry_after_s=wait_s,
            )
        self._open.add(session.digest)

    def finish(self, session_digest: str) -> None:
        """Stop counting one authorization of the session, since its browser has returned from the provider."""
        self._open.subtract(session_digest)
