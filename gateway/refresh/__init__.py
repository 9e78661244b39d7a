"""Refresh: replaces a token that a provider may accept only once, on several nodes, without losing it.

The protocol (ADR 20): write lease and intent in one UPDATE, send the token, write the reply to the journal, store the
new token with the version that it replaces. The new token is used only after that. Read in this order:

    decision                            the next step that a node may take: one pure function over one table
    protocol, save_tokens               one refresh from claim to commit; renews the lease, stores tokens with retries
    token_exchange                      one call to a token endpoint, journalled
    exchange_message, through_parent    an exchange as a message; the worker's end of the channel
    for_workers                         the parent's end: finishes each exchange even if the worker dies
    auth_exchange                       sends the calls of an auth mode: only it sends codes and refresh tokens
    refresher                           the queue; one task per connection, shared by all callers that wait
    schedule                            when to refresh: before a token expires, or a refresh token expires from disuse
    backoff                             how a failure affects callers and the next attempt; when refusals are final
    recovery                            finishes refreshes of dead processes; restores claims that a failover lost
    keep_alive                          keeps idle refresh tokens alive
    ending_connections                  connections that end with their access token

Always true: the intent is on the disk before the token leaves; every write is fenced by the connection's version.
"""
