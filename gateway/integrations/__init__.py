"""All integrations: those declared in gateway.yaml, and those created through the API.

    registry          finds an integration by environment and key
    declared          checks gateway.yaml's integrations against the catalog
    client_mistakes   recognizes mistakes in copying a client's ID and secret

An integration is the use of one provider in one environment: its client, scopes and hosts (`records/integration.py`). A
declared integration hides an API-managed integration with the same key.

Always true: one registry maps each key to its integration; this package decides which auth modes and scripts exist.
"""
