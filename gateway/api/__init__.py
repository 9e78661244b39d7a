"""The gateway's own HTTP API: one file an area, with its handlers and the models of their bodies.

`app/routes.py` has the table of addresses; each handler states its scope (`@needs`). Read one area first:

    request_body, shapes, addressed     reads bodies and queries; members that several bodies share; ids in addresses
    answers                             the shapes of what is returned
    connections, connection_json        list, read, change, delete; a connection as JSON
    connection_import, narrow           `POST /connections`; what minted keys may not set for a connection
    integrations, integration_shapes    integrations; what may be sent to make one, and how one is shown
    connect_endpoints                   connect sessions, made by the customer's back end
    session_results, connect_socket     what becomes of them: asked for, and on the WebSocket of a browser
    typed_in, client_metadata           connecting by a form; our OAuth client metadata document
    keys, environment, providers        keys; variables and the signing key; the catalog and its logos
    provider_operations                 what a provider's API can do
    agent_sessions                      `POST /sessions`: a key for one tenant's connections, as Nango's clients ask for it
    logs_endpoints, audit_endpoints     `GET /logs`; `GET /audit` and `GET /audit/uses`
    webhooks, health                    providers' webhooks; `/health` and `/ready`

Always true: all faults of a request are reported at once; unknown members are refused; the shapes are those of
docs/compatibility.md; a key without a scope or outside its limits learns nothing about what exists.
"""
