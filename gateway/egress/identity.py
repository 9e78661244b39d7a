"""Client certificates for mutual TLS (RFC 8705): a context for each, and never a plain key on the disk."""

import asyncio
import secrets
import ssl
from collections import OrderedDict
from pathlib import Path
from typing import Final

from gateway.egress.errors import EgressError
from gateway.egress.tls import Sessions, prepared
from gateway.records.call import ClientIdentity

MOST_KEPT: Final = 256


class Identities:
    """`trust`: whose authorities servers are checked against; the system's if None. Verification is the same as ever."""

    def __init__(self, trust: ssl.SSLContext | None) -> None:
        self._trust = trust
        self._kept: OrderedDict[ClientIdentity, ssl.SSLContext] = OrderedDict()

    async def context(self, identity: ClientIdentity) -> ssl.SSLContext:
        """The context that shows this certificate. Raises EgressError ``tls`` where certificate and key are unfit."""
        found = self._kept.get(identity)
        if found is None:
            try:  # in a thread: reading the authorities and the key takes milliseconds
                found = await asyncio.to_thread(_made, identity, self._trust)
            except Exception as fault:
                raise EgressError(
                    "tls", "The connection's client_certificate and client_private_key cannot be used for TLS."
                ) from fault
            self._kept[identity] = found
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(identity)
        return found


def _made(identity: ClientIdentity, trust: ssl.SSLContext | None) -> ssl.SSLContext:
    if trust is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=b"".join(trust.get_ca_certs(binary_form=True)))
    _load(context, identity)
    # No session is resumed: one that was made with this certificate says who we are without showing it again.
    return prepared(context, Sessions())


def _load(context: ssl.SSLContext, identity: ClientIdentity) -> None:
    """`ssl` reads keys from files only, so it gets one that a passphrase of this moment locks."""
    import tempfile

    from cryptography.hazmat.primitives import serialization  # both here: few workers ever show a certificate

    key = serialization.load_pem_private_key(identity.private_key.reveal().encode(), password=None)
    passphrase = secrets.token_bytes(32).hex().encode()
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase),
    )
    with tempfile.TemporaryDirectory(prefix="gateway-tls-") as folder:
        shown = Path(folder, "identity.pem")
        shown.write_bytes(identity.certificate.encode() + b"\n" + locked)
        context.load_cert_chain(shown, password=passphrase)
