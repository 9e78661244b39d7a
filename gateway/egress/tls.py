"""Prepares TLS with providers: verifies every certificate, resumes sessions, and sends client certificates."""

import asyncio
import secrets
import ssl
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gateway.egress.egress_errors import EgressError
from gateway.private_keys import private_key_in
from gateway.records.provider_call import ClientIdentity

MAX_SESSIONS: Final = 1024


class TlsSessions:
    """The newest TLS session of each host (RFC 8446 §2.2), for up to `MAX_SESSIONS` hosts.

    A session can be resumed only with the TLS context of the connection that made it.
    """

    def __init__(self) -> None:
        self._session_by_host: OrderedDict[str, ssl.SSLSession] = OrderedDict()

    def find_session(self, host: str | None) -> ssl.SSLSession | None:
        return self._session_by_host.get(host or "")

    def keep(self, ssl_object: ssl.SSLObject | None) -> None:
        """Store the session of a connection.

        Call this after the first response, because the session ticket has arrived by then (RFC 8446 §4.6.1).
        """
        if ssl_object is None or ssl_object.session is None:
            return
        host = ssl_object.server_hostname or ""
        self._session_by_host[host] = ssl_object.session
        self._session_by_host.move_to_end(host)
        if len(self._session_by_host) > MAX_SESSIONS:
            self._session_by_host.popitem(last=False)


def prepare_context(context: ssl.SSLContext | None, sessions: TlsSessions) -> ssl.SSLContext:
    """Make `context` strict and return it. Connections with this context resume `sessions`.

    `context`: None makes a new context with the system's certificate authorities. asyncio has no parameter for a
    session, but takes the class of its TLS objects from the context. So this function sets that class.
    """
    context = context or ssl.create_default_context()
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.check_hostname, context.verify_mode = True, ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])

    class ResumingSslObject(ssl.SSLObject):
        """A TLS connection that resumes one of `sessions`.

        `read` and `write` of this class skip a layer of Python code, which costs as much CPU as decrypting a record.
        """

        _session_set = False
        incoming: ssl.MemoryBIO  # received bytes that are not decrypted yet

        @classmethod
        def _create(cls, incoming: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> "ResumingSslObject":
            ssl_object: ResumingSslObject = super()._create(incoming, *args, **kwargs)  # type: ignore[misc]
            ssl_object.incoming = incoming
            ssl_object.read, ssl_object.write = ssl_object._sslobj.read, ssl_object._sslobj.write  # type: ignore[attr-defined,method-assign]
            return ssl_object

        def do_handshake(self) -> None:
            if not self._session_set:
                self._session_set = True
                if session := sessions.find_session(self.server_hostname):
                    with suppress(ValueError):  # a session of another context; TLS then does a full handshake
                        self.session = session
            super().do_handshake()

    context.sslobject_class = ResumingSslObject
    return context


def decrypt_rest(ssl_object: ssl.SSLObject, encrypted: bytes) -> bytes:
    """Decrypt the bytes that a transport had not read when it ended. `ssl_object`: of a context of `prepare_context`."""
    incoming: ssl.MemoryBIO = ssl_object.incoming  # type: ignore[attr-defined]
    incoming.write(encrypted)
    decrypted = bytearray()
    with suppress(ssl.SSLError):  # the last record is incomplete, or the provider has announced its end
        while piece := ssl_object.read(len(encrypted) or 1):
            decrypted += piece
    return bytes(decrypted)


def closed_cleanly(ssl_object: ssl.SSLObject) -> bool:
    """Return whether the peer announced the end of its data (``close_notify``). Call this after all data was read."""
    try:
        return not ssl_object.read(1)
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:
        return False


def handshake_failure(fault: ssl.SSLError) -> str:
    """Return the cause of a failed handshake, in a few words."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return fault.verify_message.rstrip(".")
    if fault.reason:
        return fault.reason.replace("_", " ").lower()
    return "no common protocol"


# ── Makes a TLS context for each client certificate (mutual TLS, RFC 8705). No unencrypted key is written to the disk.

MAX_CONTEXTS: Final = 256


class ClientTlsContexts:
    """TLS contexts with client certificates.

    `trust`: a context with the certificate authorities that verify servers; None: the system's authorities.
    """

    def __init__(self, trust: ssl.SSLContext | None) -> None:
        self._trust = trust
        self._context_by_identity: OrderedDict[ClientIdentity, ssl.SSLContext] = OrderedDict()

    async def context(self, identity: ClientIdentity) -> ssl.SSLContext:
        """Return the context for this certificate. Raises EgressError ``tls`` if certificate and key cannot be used."""
        context = self._context_by_identity.get(identity)
        if context is None:
            try:  # in a thread: reading the authorities and the key takes milliseconds
                context = await asyncio.to_thread(_context_with, identity, self._trust)
            except Exception as fault:
                raise EgressError(
                    "tls",
                    "The connection's client_certificate and client_private_key cannot be used for TLS. "
                    "Check that both are PEM and belong together.",
                ) from fault
            self._context_by_identity[identity] = context
            if len(self._context_by_identity) > MAX_CONTEXTS:
                self._context_by_identity.popitem(last=False)
        self._context_by_identity.move_to_end(identity)
        return context


def _context_with(identity: ClientIdentity, trust: ssl.SSLContext | None) -> ssl.SSLContext:
    if trust is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=b"".join(trust.get_ca_certs(binary_form=True)))
    _load_identity(context, identity)
    # Sessions are not resumed here, because a session would identify the client without the certificate.
    return prepare_context(context, TlsSessions())


def _load_identity(context: ssl.SSLContext, identity: ClientIdentity) -> None:
    """Load certificate and key from a temporary file, because `ssl` reads keys only from files.

    The key in the file is encrypted with a passphrase that is used only once.
    """
    import tempfile  # imported here, because few workers ever use a client certificate

    from cryptography.hazmat.primitives import serialization

    key = private_key_in(identity.private_key.reveal())
    passphrase = secrets.token_bytes(32).hex().encode()
    encrypted_key = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase),
    )
    with tempfile.TemporaryDirectory(prefix="gateway-tls-") as folder:
        pem_file = Path(folder, "identity.pem")
        pem_file.write_bytes(identity.certificate.encode() + b"\n" + encrypted_key)
        context.load_cert_chain(pem_file, password=passphrase)
