"""Refresh: how several nodes replace a token that a provider may accept only once.

The rules, in this order:

1. `decision.py`: what a node may do now with a connection whose token needs a refresh. One pure function, `next_step`, over
   one transition table, `TABLE`. No I/O, no clock, nothing but enumerations and booleans, so that a model checker can
   explore it together with crashes and delays.
2. `gateway/connections/standing.py`: reads those facts from a row, the local refresh journal and this node's state.
3. `gateway/connections/redeem.py` and `recover.py`: carry out the step.

The token exchange, a call to a token endpoint whose reply is in the journal before anybody uses it (ADR 41):

4. `exchange.py`: the exchange itself: begun, asked, reply journalled; the interface that refreshes use; and the exchange in
   this process, for plugins in a host's process and for commands. `sent.py` keeps it from sending a token twice at a time.
5. `message.py`: an exchange as a message between a worker and its parent; `through_parent.py`: the worker's end;
   `for_workers.py`: the parent's end. `gateway serve` has its parent do the exchange, so that a worker's death loses no reply.

What always holds:

- An open intent says that a refresh token may have been sent. It is stored before the token leaves (ADR 20).
- A lease is set, compared and ended by the time of the database only (ADR 42).
- A lease that has not run out is claimed only by a node that knows, by a local file lock, that its holder is dead.
- Where another machine may still hold the provider's reply, a refresh token that rotates is not sent again.
- A reply of 2xx is in the journal before it is handed on, if the journal can be written.
"""
