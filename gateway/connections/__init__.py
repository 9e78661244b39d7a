"""Connections in memory and their life: cached, created, verified, diagnosed, deleted.

A proxied call asks `cache` and nothing else; everything that changes a connection goes through the store and comes back by the
change feed. Read in this order:

    opened                 a connection ready for use: records, provider, templates filled for many calls
    cache, cache_entries   the cache of opened connections, with single flight; what is in it, and what is due
    change_feed            follows the store's change log: what another process wrote or deleted is known here
    settings               a connection's settings, checked when given and again when used
    create, completing     from a credential to a stored connection; the entry's script completes its settings
    verify                 proves a credential when it is made, and learns whose account it is
    rejected_credentials   what follows when an API rejects a credential: an early refresh, then a report
    refused_scopes         what follows when an API answers 403 for missing scopes
    delete                 deletes a connection here first, then its tokens at the provider
    api_integrations       integrations made, changed and deleted through the API
    operation_search       which connections a search of the call log is about
    scope_drift            granted against needed scopes
    lacking_scopes         which connections lack scopes
    diagnosis              why a connection is as it is: time line, causes, the action that helps

Always true: a call reads the cache alone and makes no SQL statement while it is fresh; a deleted connection is refused at
once here and within `live.trust_s` elsewhere.
"""
