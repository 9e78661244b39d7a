"""An environment: one customer application's set of integrations and connections, opened by its secret keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """`name` is its identity everywhere, the store included (api-contract 0.6: ``[a-z0-9_-]+``)."""

    name: str
