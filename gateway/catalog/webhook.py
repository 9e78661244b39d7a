"""How a provider proves that a webhook comes from it."""

from typing import Literal

from gateway.catalog.shape import Shape


class WebhookSignature(Shape):
    """How the provider signs the webhooks it sends."""

    scheme: str
    """`hmac-sha256`, `hmac-sha1`, `standard-webhooks` …"""
    header: str
    """Header field that carries the signature."""
    encoding: Literal["hex", "base64"] | None = None
    """How the signature is written."""
    prefix: str | None = None
    """Text before the signature, for example `sha256=`."""
    signed_payload: str | None = None
    """What is signed: `raw body`, or a form such as `v0:{x-slack-request-timestamp}:{raw body}`."""
    timestamp_header: str | None = None
    """Header field that carries the time of sending."""
    tolerance_s: int | None = None
    """How old a message may be, in seconds."""
    key: str | None = None
    """Whose secret signs: `client secret`, `auth token`; absent: one made for the webhook."""
    bodies_repeat: bool | None = None
    """Whether two events may have the same body, so that a message that came before is not taken for a replay."""
    challenge: str | None = None
    """How the provider proves the address before it sends, for example `hub.challenge echoed`."""
    handshake_header: str | None = None
    """Header field that brings the secret in the first request and is echoed."""
    note: str | None = None
    """What else to know, in words."""
