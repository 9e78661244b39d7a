"""The few files that pages load: from a fixed table, never from a path that somebody sends."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from gateway import resources
from gateway.errors import NotFound
from gateway.services import SERVICES

OWN: Final = {"connect.css": "text/css", "connect.js": "text/javascript", "icon.svg": "image/svg+xml"}
IMAGES: Final = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
LOGO: Final = "logo"


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    mark: str


async def asset(request: web.Request) -> web.Response:
    """GET /connect/assets/{name}. Raises NotFound."""
    name = request.match_info["name"]
    logo = request.app[SERVICES].config.branding.logo
    if name in OWN:
        file, kind = own(name), OWN[name]
    elif name == LOGO and logo is not None:
        file, kind = _image(logo), IMAGES[logo.suffix.lower()]
    else:
        raise NotFound("not_found", "There is no such file.")
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if request.query.get("v") == file.mark else "no-cache",
        "ETag": f'"{file.mark}"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }
    if any(tag.value == file.mark for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    charset = "utf-8" if kind.startswith("text/") else None
    answer = web.Response(body=file.content, content_type=kind, charset=charset, headers=headers)
    answer.headers.pop(hdrs.SET_COOKIE, None)
    return answer


@cache
def own(name: str) -> File:
    return _read(resources.folder("templates") / "connect" / name)


def logo_mark(logo: Path | None) -> str | None:
    """What changes with the operator's logo; None where there is none."""
    try:
        return None if logo is None else _image(logo).mark
    except NotFound:
        return None


def _image(path: Path) -> File:
    try:
        stamp = path.stat()
    except OSError as fault:
        raise NotFound("not_found", "The logo is gone.") from fault
    return _logo(path, stamp.st_mtime_ns, stamp.st_size)


@cache
def _logo(path: Path, _changed: int, _size: int) -> File:
    return _read(path)


def _read(path: Path) -> File:
    content = path.read_bytes()
    return File(content, hashlib.sha256(content).hexdigest()[:16])
