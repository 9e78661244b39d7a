"""Where it goes: the raw path on the provider's base URL, with the fields that travel on (docs/http-api.md#the-proxy)."""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from gateway.connections.opened import Opened
from gateway.errors import InvalidRequest, MethodNotAllowed
from gateway.http import headers, url
from gateway.http.headers import from_wire
from gateway.http.origin import Address, covers
from gateway.http.request_head import ALLOW, NEVER
from gateway.middleware.facts import ASKED, CAPABILITY, CONNECTION, UPSTREAM
from gateway.records.proxied_call import UpstreamRequest


@web.middleware
async def upstream(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn UPSTREAM. Raises MethodNotAllowed, and InvalidRequest ``bad_path``, ``invalid_headers`` or
    ``base_url_override_not_allowed``."""
    if request.method in NEVER:
        raise MethodNotAllowed("method_not_allowed", f"{request.method} is not proxied.", headers=ALLOW, close=True)
    base = _base(request[CONNECTION], request[ASKED].base_url)
    target = url.origin_form(request.raw_path, request.headers.get(hdrs.HOST, ""))
    called_by = request.get(CAPABILITY)
    mount, token, shown = mounted_at(request), "", None
    if called_by is not None:
        mount, token, shown = called_by.mount.reveal(), called_by.token.reveal(), f"{mount}/<capability>"
    rest = url.rest_of(target, mount, shown)
    request[UPSTREAM] = UpstreamRequest(
        method=request.method,
        scheme=base.scheme,
        host=base.host,
        port=base.port,
        target=url.join(base.path, rest),
        headers=CIMultiDict(headers.request_fields(from_wire(request.raw_headers), token)),
        base_path=base.path,
    )
    return await handler(request)


def mounted_at(request: web.Request) -> str:
    """How every address of this route begins, prefix of a host application included: ``/gateway/proxy``."""
    resource = request.match_info.route.resource
    return resource.canonical.partition("{")[0].rstrip("/") if resource is not None else "/proxy"


def _base(opened: Opened, override: Address | None) -> Address:
    own = opened.base
    if override is None:
        return own
    allowed = opened.allowed_origins | {own.origin}
    if not covers(allowed, override.origin):
        only = "" if override.scheme == "https" else ", if egress.allow opens it: other hosts are reached by https only"
        named = allowed if opened.secret_base is None else allowed - {own.origin}
        raise InvalidRequest(
            "base_url_override_not_allowed",
            f"Base-Url-Override may name {', '.join(sorted(named)) or 'no other origin'}; "
            f"the integration's allowed_origins can add {override.origin}{only}.",
        )
    return override
