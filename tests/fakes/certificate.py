"""Test certificates, and TLS contexts for a server that presents one and a client that trusts it."""

import datetime as dt
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def tls_contexts(host: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a TLS context for the server and one for the client. The certificate is self-signed and valid only for
    `host`.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))


_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Identity(NamedTuple):
    """A certificate and its private key, both as PEM."""

    certificate: str
    key: str


def issue_identity(
    name: str, issuer: "tuple[Any, Any] | None" = None, host: str | None = None
) -> tuple[Identity, tuple[Any, Any]]:
    """Return an identity for `name`, and its certificate and key as objects.

    `issuer`: the certificate and key that sign the new certificate; None: the new certificate is self-signed.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    # Python 3.13 checks chains strictly (RFC 5280 §4.2.1.1 to §4.2.1.3), so it needs these extensions.
    issuer_key = (issuer[1] if issuer else key).public_key()
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    if issuer is None:
        usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    certificate = builder.sign(issuer[1] if issuer else key, hashes.SHA256())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return Identity(certificate.public_bytes(serialization.Encoding.PEM).decode(), text), (certificate, key)
