"""Refresh: how several nodes replace a token that a provider may accept only once.

    decision.py              What a node may do now with a connection whose token needs a refresh: one pure function
                             over one transition table.
    protocol.py              One refresh from the claim to the commit (ADR 20).
    save_tokens.py           The lease held while something is under way, and new tokens put on the disk. They exist
                             nowhere else: storage errors are retried.
    token_exchange.py        One call to a token endpoint, journalled: that it has begun, then its reply, before the
                             reply is handed on.
    exchange_message.py      An exchange as a message from a worker to its parent, and what came of it as the
                             message back.
    through_parent.py        A worker's end: its parent does the exchanges, and the replies outlive the worker.
    for_workers.py           The parent's end: exchanges for its workers, each to its end whatever becomes of the
                             worker that wanted it.
    auth_exchange.py         What auth modes ask providers, done in one place: the one where codes, passwords and
                             refresh tokens leave.
    refresher.py             The refresh queue, and one task a node for all who wait for a refresh; no leaving
                             client can cancel it.
    schedule.py              When a token is refreshed ahead of its end, and how refreshes that are due together are
                             spread.
    refresh_token_expiry.py  How long what renews a connection lives, by what its provider's entry says of disuse,
                             and when to refresh it before that.
    ending_connections.py    Connections that end with their access token: nothing renews them, so their end is
                             noted when it comes, call or no call.
    backoff.py               What a failed refresh means for the next one, and for callers meanwhile; how often a
                             refusal must repeat before it counts.
    recovery.py              Takes up refreshes that another process began and did not finish: an intent that is
                             still open under a lease.
    keep_alive.py            Refreshes connections that nobody uses before their refresh token dies of that, and
                             notes those that end. One node does it

Always true: intent on the disk before the token leaves; a reply is journalled before it is used; every write is
fenced by the connection's version.
"""
