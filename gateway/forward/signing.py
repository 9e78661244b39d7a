"""Signs UPSTREAM for one attempt, where the connection's auth mode signs requests; see `gateway.auth.signer`."""

from typing import Final

from aiohttp import web

from gateway.errors import BodyTooLarge
from gateway.forward.upload import Upload
from middleware.facts import CONNECTION, UPSTREAM

HELD_BYTES: Final = 16 * 1024 * 1024  # the largest body that the services take which want its hash


async def gather(request: web.Request, upload: Upload) -> None:
    """Take the whole body, if it goes into the signature. Raises BodyTooLarge."""
    signer = request[CONNECTION].placement.signer
    if signer is None or not request.body_exists or not signer.wants_body(request[UPSTREAM]):
        return
    if await upload.gathered(HELD_BYTES) is None:
        raise BodyTooLarge(
            "body_too_large",
            f"This provider wants requests signed over the body, and one of more than {HELD_BYTES >> 20} MiB is not held "
            "for that. Send its SHA-256 in hex as X-Amz-Content-Sha256, and it streams.",
            close=True,
        )


async def sign(request: web.Request, upload: Upload) -> None:
    """Sign what is about to be sent, with a nonce and a time of its own. `gather` has been awaited."""
    signer = request[CONNECTION].placement.signer
    if signer is None:
        return
    upstream = request[UPSTREAM]
    body: bytes | None = b""
    if request.body_exists:
        body = await upload.gathered(HELD_BYTES) if signer.wants_body(upstream) else None
    signer.sign(upstream, body)
