"""Connections in memory and their life: cached, created, verified, diagnosed, deleted.

Every change of a connection is written to the store and reaches the cache through the change feed. In reading order:

    opened                 a connection ready for use: records, provider, templates filled once for many calls
    cache, cache_entries   the cache of opened connections, with single flight; its entries and when each entry is due
    change_feed            follows the store's change log, so that changes of other processes reach the cache
    lost_commits           writes newer connections back to a database that lost commits in a failover
    settings               a connection's settings, checked when given and again when used
    create, completing     stores a connection for a credential; runs the entry's script, which completes the settings
    verify                 tests a new credential and reads which account it belongs to
    rejected_credentials   handles an API that rejects a credential: first refreshes the credential, later reports it
    refused_scopes         handles an API that returns 403 for missing scopes
    delete                 deletes a connection in the store first, then revokes its tokens at the provider
    api_integrations       integrations created, changed and deleted through the API
    operation_search       finds the connections that match a search of the call log
    scope_drift            compares granted with needed scopes
    lacking_scopes         finds connections that lack scopes
    diagnosis              explains a connection's state: time line, causes, the action that helps

Always true: a call reads only the cache, and runs no SQL statement while the entry is fresh. A deleted connection is
refused immediately in this process, and within `live.trust_s` in other processes.
"""
