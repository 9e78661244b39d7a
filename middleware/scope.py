"""Whether the key may come here at all: each handler says which scope it needs; one that says nothing needs them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web

from gateway.access.refusals import beyond_limits, lacking
from gateway.access.scopes import EVERYTHING
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER

NEEDS: Final = "__gateway_needs__"

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Needs:
    """`scopes`: one of these, none if empty. `limits`: the handler itself keeps to the key's integrations and connections."""

    scopes: tuple[str, ...]
    limits: bool


UNSAID: Final = Needs((EVERYTHING,), limits=False)


def needs(*scopes: str, limits: bool = False) -> Callable[[H], H]:
    """Say of a handler which scope opens it; several: any of them; none: any key does.

    Without `limits`, keys that are limited to some integrations or connections are refused, since the handler does not
    look at that.
    """

    def said(handler: H) -> H:
        setattr(handler, NEEDS, Needs(scopes, limits))
        return handler

    return said


@web.middleware
async def scope(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises Forbidden."""
    caller = request.get(CALLER)  # None: a connect session, which may do what its few addresses do
    if caller is not None and caller.access is not None:
        wanted: Needs = getattr(request.match_info.handler, NEEDS, UNSAID)
        policy = caller.policy
        if wanted.scopes and not any(policy.allows(one) for one in wanted.scopes):
            raise lacking(*wanted.scopes)
        if policy.of_resources and not wanted.limits:
            raise beyond_limits("this address does not tell them apart")
    return await handler(request)
