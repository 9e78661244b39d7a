"""All integrations: those declared in gateway.yaml, and those created through the API.

    registry          the integrations by environment and key; a declared one hides an API-managed one with the same key
    declared          checks gateway.yaml's integrations against the catalog
    client_mistakes   recognizes mistakes in copying a client's ID and secret

An integration is the use of one provider in one environment: its client, scopes and hosts (`records/integration.py`).

Always true: one registry maps a key to its integration. This package decides whether an auth mode or a script exists.
"""
