"""Refresh: replaces a token that a provider may accept only once, on several nodes, without losing it.

The protocol (ADR 20): lease and intent in one UPDATE, the exchange, its reply in the journal, the new token in the database
with the version it replaces. Only then is it used. Read in this order:

    decision                            what a node may do now: one pure function over one table
    protocol, save_tokens               one refresh from claim to commit; the lease kept, tokens stored with retries
    token_exchange                      one call to a token endpoint, journalled
    exchange_message, through_parent    an exchange as a message; a worker's end of the channel
    for_workers                         the parent's end: each exchange to its end, whatever becomes of the worker
    auth_exchange                       runs what an auth mode asks for: the place where codes and refresh tokens leave
    refresher, schedule                 the queue, with one task for all who wait; when tokens are refreshed ahead of time
    backoff                             what a failure means for callers and the next attempt; when refusals are final
    recovery, keep_alive                takes up refreshes of dead processes; keeps idle refresh tokens alive
    reconcile                           puts back claims that a failover of the database lost
    refresh_token_expiry                how long a refresh token lives
    ending_connections                  connections that end with their access token

Always true: the intent is on the disk before the token leaves; every write is fenced by the connection's version.
"""
