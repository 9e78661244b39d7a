"""What the fast lane hands over: the first attempt of a request that the chain goes on with."""

from typing import NamedTuple, TypeAlias

from gateway.connections.opened import Opened
from gateway.egress.errors import EgressError
from gateway.egress.exchange import Exchange
from gateway.egress.parties import Lost
from gateway.forward.watch import StoodStill

FirstOutcome: TypeAlias = Exchange | EgressError | StoodStill | Lost


class Handed(NamedTuple):
    """What the fast lane hands over, the seconds that were spent on it, and the connection as it was sent with."""

    outcome: FirstOutcome
    spent_s: float
    opened: Opened
