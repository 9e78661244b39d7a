"""Signs UPSTREAM for one attempt, where the connection's auth mode signs requests; see `gateway.auth.signer`."""

from typing import Final

from aiohttp import hdrs, web

from gateway.errors import BodyTooLarge
from gateway.forward.upload import Upload
from gateway.off_loop import INLINE_BYTES, off_loop
from middleware.facts import CONNECTION, UPSTREAM

HELD_BYTES: Final = 16 * 1024 * 1024  # the largest body that the services take which want its hash


async def gather(request: web.Request, upload: Upload) -> None:
    """Take the whole body, if it goes into the signature or gets members of the entry's. Raises BodyTooLarge."""
    placement, upstream = request[CONNECTION].placement, request[UPSTREAM]
    kind, coding = (upstream.headers.get(name, "") for name in (hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING))
    members = placement.body if placement.body and placement.body.fit(request.method, kind, coding) else None
    signed = placement.signer is not None and placement.signer.wants_body(upstream)
    if not request.body_exists or not (signed or members):
        return
    body = await upload.gathered(HELD_BYTES)
    if body is None:
        raise BodyTooLarge(
            "body_too_large",
            f"This provider wants the credential in the body or requests signed over it, and one of more than "
            f"{HELD_BYTES >> 20} MiB is not held for that. For AWS, send its SHA-256 in hex as X-Amz-Content-Sha256, and it "
            "streams.",
            close=True,
        )
    if members is not None:
        put = members.put_into
        upload.replace(put(kind, body) if len(body) <= INLINE_BYTES else await off_loop(put, kind, body))


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
