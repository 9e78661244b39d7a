"""TLS with providers: always verified, 1.2 or newer, sessions resumed; and its faults in words."""

import ssl
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Final

SESSIONS: Final = 1024


class Sessions:
    """The newest session with each host (RFC 8446 §2.2), a bounded number. Only for the context it was made for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ssl.SSLSession] = OrderedDict()

    def of(self, host: str | None) -> ssl.SSLSession | None:
        return self._kept.get(host or "")

    def keep(self, inside: ssl.SSLObject | None) -> None:
        """Remember how to resume this connection's session; the ticket comes with the first answer (RFC 8446 §4.6.1)."""
        if inside is None or inside.session is None:
            return
        host = inside.server_hostname or ""
        self._kept[host] = inside.session
        self._kept.move_to_end(host)
        if len(self._kept) > SESSIONS:
            self._kept.popitem(last=False)


def prepared(context: ssl.SSLContext | None, sessions: Sessions) -> ssl.SSLContext:
    """`context`, or the system's trust, made strict; its connections resume `sessions`.

    asyncio has no way to pass a session, but asks the context for the class of its TLS objects.
    """
    context = context or ssl.create_default_context()
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.check_hostname, context.verify_mode = True, ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])

    class Resuming(ssl.SSLObject):
        """`closed_cleanly`: the peer said that nothing follows, so that what came is all there is."""

        closed_cleanly = False
        _begun = False

        def do_handshake(self) -> None:
            if not self._begun:
                self._begun = True
                if session := sessions.of(self.server_hostname):
                    with suppress(ValueError):  # a session of another context: a full handshake then
                        self.session = session
            super().do_handshake()

        def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 (named so by ssl)
            try:
                got = super().read(len, buffer)
            except ssl.SSLZeroReturnError:
                self.closed_cleanly = True
                raise
            if not got:
                self.closed_cleanly = True
            return got

    context.sslobject_class = Resuming
    return context


def reason(fault: ssl.SSLError) -> str:
    """Why a handshake failed, in a few words."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return fault.verify_message.rstrip(".")
    if fault.reason:
        return fault.reason.replace("_", " ").lower()
    return "no common protocol"
