"""Refresh: replaces a token that a provider may accept only once, on several nodes, without losing it.

The protocol (ADR 20): write lease and intent in one UPDATE, send the refresh token, write the reply to the journal,
store the new token. The gateway uses the new token only after it is stored. Read the files in this order:

    decision                            decides the next step of a node, with one table
    protocol, save_tokens               run one refresh from claim to commit; renew the lease, store the new tokens
    token_exchange                      calls a token endpoint and journals the reply
    exchange_message, through_parent    send an exchange as a message from a worker to its parent
    for_workers                         runs the exchanges in the parent; finishes them even if the worker dies
    auth_exchange                       sends the calls of an auth mode; only this file sends codes and refresh tokens
    refresher                           queues refreshes; runs one task per connection for all callers that wait
    schedule                            decides when to refresh, so that no token expires before its refresh
    backoff                             decides when to retry, what error callers get, and when refusals are final
    recovery                            finishes refreshes of dead processes; restores claims that a failover lost
    keep_alive                          refreshes unused connections before their refresh token expires, and records
                                        those that cannot be refreshed any more

Always true: the intent is on the disk before the refresh token is sent. Every write names the version of the credential
that it replaces, so that the database refuses a late write.
"""
