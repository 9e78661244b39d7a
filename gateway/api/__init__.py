"""The gateway's own HTTP API: one file per area, with its handlers and the models of their bodies.

`app/routes.py` has the table of routes. Each handler declares the scope that a key needs (`@needs`). To get to know the
package, start with one area:

    request_body, shapes, path_ids      bodies and queries; members that several bodies share; ids in paths
    responses                           the shapes of response bodies
    connections, connection_json        list, read, change and delete connections; a connection as JSON
    connection_import                   `POST /connections`
    minted_key_limits                   what minted keys may not set for a connection
    integrations, integration_shapes    integrations; the bodies that create or change one, and its JSON
    connect_endpoints                   creates connect sessions for the application's back end
    session_results, connect_socket     results of connect sessions: on request, and through the browser's WebSocket
    credential_forms, client_metadata   connects an account by a form; the gateway's OAuth client metadata document
    keys, environment, providers        keys; an environment's variables and signing key; the catalog and its logos
    provider_operations                 the operations of a provider's API
    agent_sessions                      `POST /sessions`: a key for one tenant's connections, in Nango's format
    logs_endpoints, audit_endpoints     `GET /logs`; `GET /audit` and `GET /audit/uses`
    webhooks, health                    providers' webhooks; `/health` and `/ready`

Always true: a response reports all faults of a request together; unknown members of a body are refused; bodies have the
shapes of docs/compatibility.md; no error reveals whether something exists that the caller's key may not use.
"""
