"""Limits how many attempts to connect a connect session may make without success."""

from typing import Final

from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.authorization.results import LIFETIME
from gateway.errors import TooManyRequests
from gateway.records.connecting import ConnectSession

MAX_OPEN: Final = 100
"""Maximum number of attempts without success that a session may make within `ATTEMPTS_WINDOW_S` seconds, counted in this
process. The number is limited because each attempt takes up to 8 KB of the database for up to an hour. A failed
authorization also sends an event to the application."""
ATTEMPTS_WINDOW_S: Final = LIFETIME.total_seconds()


class OpenAuthorizations:
    """Counts each connect session's attempts that have not succeeded, in this process. An attempt is an authorization
    that was started, or a credential that was typed in."""

    def __init__(self) -> None:
        self._attempts: WindowCounter[str] = WindowCounter(ATTEMPTS_WINDOW_S)

    def add(self, session: ConnectSession) -> None:
        """Count an attempt that `session` begins. Raises TooManyRequests if `MAX_OPEN` attempts of the session are open
        or failed."""
        self._attempts.restart_if_over()
        if self._attempts[session.digest] >= MAX_OPEN:
            wait_s = self._attempts.left_s
            fix = f"Finish one that is open in another window, or try again in {wait_s} s."
            raise TooManyRequests(
                "too_many_request",
                f"More than {MAX_OPEN} attempts to connect with this link did not succeed. {fix}",
                payload={"limit": MAX_OPEN, **rule_and_fix("authorizations_open", fix)},
                retry_after_s=wait_s,
            )
        self._attempts.add(session.digest)

    def succeed(self, session_digest: str) -> None:
        """Stop counting one attempt of the session, because the attempt made a connection."""
        self._attempts.subtract(session_digest)
