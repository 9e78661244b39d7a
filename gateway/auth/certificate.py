"""The client certificate of a credential: what mutual TLS shows to the provider (RFC 8705)."""

from typing import Final

from gateway.auth.form import Form
from gateway.auth.keys import BadKey, check_identity, pem
from gateway.catalog.provider import Provider

CERTIFICATE: Final = "client_certificate"
PRIVATE_KEY: Final = "client_private_key"
TYPED_LIMIT: Final = 16_384


def certificate_fields(fields: Form, provider: Provider) -> dict[str, str]:
    """``client_certificate`` and ``client_private_key`` of a form, in PEM, where they were given; a key may come alone.

    Notes a fault where they do not belong together, or where the provider is reached by mutual TLS only and they lack.
    """
    given = {name: fields.text(name, limit=TYPED_LIMIT, required=False) for name in (CERTIFICATE, PRIVATE_KEY)}
    certificate, key = given[CERTIFICATE], given[PRIVATE_KEY]
    if provider.require_client_certificate and not (certificate and key):
        fields.fault(CERTIFICATE, f"This provider is reached by mutual TLS only: give {CERTIFICATE} and {PRIVATE_KEY}.")
    elif certificate:
        given = {CERTIFICATE: pem(certificate), PRIVATE_KEY: pem(key)}
        try:
            check_identity(given[CERTIFICATE], given[PRIVATE_KEY])
        except BadKey as fault:
            fields.fault(CERTIFICATE, f"{str(fault)[:1].upper()}{str(fault)[1:]}.")
    return {name: text for name, text in given.items() if text}
