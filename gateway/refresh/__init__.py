"""Refresh: replaces a token that a provider may accept only once, on several nodes, without losing it.

The protocol (ADR 20): lease and intent in one UPDATE, the exchange, its reply in the journal, the new token in the database
with the version it replaces. Only then is it used. Read in this order:

    decision                            what a node may do now: one pure function over one table
    protocol, save_tokens               one refresh from claim to commit; the lease kept, tokens stored with retries
    token_exchange                      one call to a token endpoint, journalled
    exchange_message, through_parent    an exchange as a message; a worker's end of the channel
    for_workers                         the parent's end: each exchange to its end, whatever becomes of the worker
    auth_exchange                       runs what an auth mode asks for: the place where codes and refresh tokens leave
    refresher                           the queue, with one task for all who wait
    schedule                            when: an access token ahead of its end, a refresh token before it expires unused
    backoff                             what a failure means for callers and the next attempt; when refusals are final
    recovery                            takes up refreshes of dead processes; puts back claims that a failover lost
    keep_alive                          keeps idle refresh tokens alive
    ending_connections                  connections that end with their access token

Always true: the intent is on the disk before the token leaves; every write is fenced by the connection's version.
"""
