"""Serves ``GET /openapi.json`` and ``GET /docs``.

No key is needed: apart from the installation's public URL, both show only what docs/http-api.md shows. They are built
at the first request.
"""

from aiohttp import web

from gateway.pages.templates import page
from gateway.runtime import generation_of


async def openapi_json(request: web.Request) -> web.Response:
    """Return the document with its entity tag, or 304 (RFC 9110 §13.1.2)."""
    from gateway.openapi.openapi_document import build_components, document_listing

    await build_components()
    document = document_listing(generation_of(request).public_url)
    headers = {"ETag": f'"{document.etag}"', "Cache-Control": "public, no-cache"}
    if any(tag.value in {document.etag, "*"} for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=document.content, content_type="application/json", charset="utf-8", headers=headers)


async def docs(request: web.Request) -> web.Response:
    """Return the API reference page. The page is complete without its script, which only adds a filter."""
    from gateway.openapi.docs_page import groups, schemas
    from gateway.openapi.openapi_document import build_components

    await build_components()
    public_url = generation_of(request).public_url
    return page(
        request,
        "docs.html",
        script=True,
        once=True,
        public_url=public_url,
        groups=groups(public_url),
        schemas=schemas(),
    )
