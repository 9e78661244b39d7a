"""The integrations there are: declared in gateway.yaml, or made through the API.

    registry   the integrations by environment and key; a declared one hides a made one of the same key
    declared   what gateway.yaml declares, checked against the catalog: faults that only both together show
    client_mistakes   shapes of mistakes in copying a client's id and secret

An integration is the use of one provider in one environment: its client, scopes and hosts (`records/integration.py`).

Always true: one registry answers which integration a key means; whether an auth mode or a script exists is decided here.
"""
