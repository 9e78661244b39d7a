"""MCP_OAUTH2 and MCP_OAUTH2_GENERIC: OAuth 2.0 for MCP servers, whose client may register itself.

Both are OAUTH2 with an entry that is completed here: by a registration, and for any server there is by discovery. What was
found is pinned in the flow and kept with the credential, so that a renewal goes where the token came from.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar

from gateway.auth.client_registration import Registered, document_url, registered, secret_method
from gateway.auth.context import Context
from gateway.auth.mcp_discovery import Server, discovered
from gateway.auth.mode import Dialogue, Granted, Revocation, SetOut, Wish
from gateway.auth.oauth2 import OAuth2
from gateway.errors import InvalidRequest
from gateway.oauth.client_auth import BASIC_AND_ID, Client
from gateway.secret import Secret


class McpOAuth2(OAuth2):
    """Held as OAUTH2 holds it, with the client that was registered in ``config_override`` and, as ``server``, the addresses
    that the token came from. Tokens are asked for with the server as their ``resource`` (RFC 8707).
    """

    name = "MCP_OAUTH2"
    stored_as: ClassVar = ("OAUTH2",)
    needs_client: ClassVar = False

    def set_out(self, context: Context, wish: Wish) -> Dialogue[SetOut]:
        server = yield from self._server(context)
        client = yield from self._client(context, server, wish)
        wanted = wish if wish.scopes or context.scopes else replace(wish, scopes=server.scopes)
        wanted = replace(wanted, params={name: text for name, text in wanted.params.items() if name != "resource"})
        known = {"server": _kept(server, client.auth_method), "client": asdict(client)}
        way = yield from super().set_out(_completed(context, known), wanted)
        return SetOut(way.url, {**way.kept, **known})

    def arrive(self, context: Context, kept: Mapping[str, Any], query: Mapping[str, str]) -> Dialogue[Granted]:
        granted = yield from super().arrive(_completed(context, kept), kept, query)
        client = {name: kept["client"][name] for name in ("client_id", "client_secret") if kept["client"].get(name)}
        held = {**granted.held, "server": kept["server"]}
        if client["client_id"] != context.integration.client_id:
            held.setdefault("config_override", client)
        return Granted(held, granted.config)

    def renew(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        if not held.get("server"):
            return (yield from super().renew(held, context))
        fresh = yield from super().renew(held, _completed(context, {"server": held["server"]}))
        return {**fresh, "server": held["server"]}

    def revocation(self, held: Mapping[str, Any], context: Context) -> Revocation | None:
        server = held.get("server") or {}
        if not server.get("revocation_url"):
            return super().revocation(held, context)
        client = self.client_at(server["revocation_url"], held, context)
        return Revocation(server["revocation_url"], client, _method(server))

    def _server(self, context: Context) -> Dialogue[Server]:
        yield from ()
        provider = context.provider
        return Server(
            resource=context.texts(provider.authorization_params).get("resource") or resource_of(context),
            authorization_url=context.url("authorization_url"),
            token_url=context.url("token_url"),
            issuer=provider.issuer,
            registration_url=context.url("registration_url") if provider.registration_url else None,
            revocation_url=context.url("revocation_url") if provider.revocation_url else None,
        )

    def _client(self, context: Context, server: Server, wish: Wish) -> Dialogue[Registered]:
        """The operator's own client if configured, else the way that the entry names or the server offers.

        Its secret is not kept with the flow: the callback reads it from the integration, and only for where it may go.
        """
        integration = context.integration
        way = context.provider.client_registration
        if integration.client_id:
            method = secret_method(context, server.auth_methods)
            own = wish.override.get("client_id")
            public = not own and (not integration.client_secret or context.toward(server.token_url).public_client())
            return Registered(integration.client_id, None, "none" if public else method)
        reachable = context.public_url.startswith("https://")
        if way == "metadata_document" or (way is None and server.reads_documents and reachable):
            return Registered(document_url(context))
        if way in {None, "dynamic"} and server.registration_url:
            scopes = context.scopes or server.scopes
            return (yield from registered(context, server.registration_url, server.auth_methods, scopes))
        raise InvalidRequest(
            "invalid_auth_mode",
            f"{context.provider.display_name} registers no clients by itself. Register one there with the callback address "
            f"{context.redirect_uri}, and set client_id of integration '{integration.integration_id}' in gateway.yaml.",
        )


class McpOAuth2Generic(McpOAuth2):
    """The same for any MCP server: its address is what the entry's `proxy.base_url` makes of the connection's settings, and
    it tells where it authorizes (RFC 9728, RFC 8414).
    """

    name = "MCP_OAUTH2_GENERIC"

    def _server(self, context: Context) -> Dialogue[Server]:
        return (yield from discovered(resource_of(context)))


def resource_of(context: Context) -> str:
    """The server's own address."""
    return context.address(context.provider.proxy.base_url).rstrip("/")


def _kept(server: Server, auth_method: str) -> dict[str, Any]:
    names = ("resource", "authorization_url", "token_url", "issuer", "revocation_url")
    found = asdict(server)
    return {name: found[name] for name in names if found[name]} | {"auth_method": auth_method}


def _completed(context: Context, known: Mapping[str, Any]) -> Context:
    """`context` with an entry that has the addresses of `known`, and with its client."""
    server = known["server"]
    resource = {"resource": server["resource"]}
    entry = context.provider
    completed = entry.model_copy(
        update={
            "authorization_url": server["authorization_url"],
            "token_url": server["token_url"],
            "refresh_url": None,
            "issuer": server.get("issuer"),
            "alternatives": {},
            "token_request_auth_method": _method(server),
            "disable_pkce": None,
            "authorization_params": {**entry.authorization_params, **resource},
            "token_params": {**entry.token_params, **resource},
            "refresh_params": {**(entry.refresh_params or entry.token_params), **resource},
        }
    )
    client = known.get("client")
    shown = None
    if client and client["client_id"] != context.integration.client_id:
        shown = Client(client["client_id"], Secret(client["client_secret"]) if client.get("client_secret") else None)
    return replace(context, provider=completed, entry=context.entry or entry, registered=shown)


def _method(server: Mapping[str, Any]) -> str:
    """How the client proves itself. Servers made with the MCP Python SDK demand its ID in the body besides Basic."""
    return BASIC_AND_ID if server["auth_method"] == "basic" else str(server["auth_method"])
