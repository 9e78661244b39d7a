"""The gateway's own HTTP API: one file per area, with its handlers and the models of their bodies.

`app/routes.py` has the table of routes; each handler states its scope (`@needs`). Read one area first:

    request_body, shapes, path_ids      reads bodies and queries; members that several bodies share; ids in paths
    responses                           the shapes of response bodies
    connections, connection_json        list, read, change, delete; a connection as JSON
    connection_import                   `POST /connections`
    minted_key_limits                   what minted keys may not set for a connection
    integrations, integration_shapes    integrations; the bodies that create or change one, and its JSON
    connect_endpoints                   creates connect sessions for your back end
    session_results, connect_socket     results of sessions: on request, and on the browser's WebSocket
    credential_forms, client_metadata   connecting by a form; our OAuth client metadata document
    keys, environment, providers        keys; variables and the signing key; the catalog and its logos
    provider_operations                 the operations of a provider's API
    agent_sessions                      `POST /sessions`: a key for one tenant's connections, in the form of Nango's clients
    logs_endpoints, audit_endpoints     `GET /logs`; `GET /audit` and `GET /audit/uses`
    webhooks, health                    providers' webhooks; `/health` and `/ready`

Always true: all faults of a request are reported at once; unknown members are refused; the shapes are those of
docs/compatibility.md; a key without a scope or outside its limits learns nothing about what exists.
"""
