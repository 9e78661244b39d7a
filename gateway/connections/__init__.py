"""Connections in memory and their life: made, verified, opened, changed, deleted.

    opened.py                A connection made ready for use: its records and provider, its templates filled once
                             for many calls.
    cache.py                 The cache of opened connections: the hot path's only stop. Single flight for reads of
                             the store.
    change_feed.py           Following the store's change log: what another process has written or deleted is known
                             here at once.
    cache_entries.py         The connections in memory, and when each is to be looked at next: to keep many costs
                             nothing while nothing is due.
    rejected_credentials.py  What follows when a provider's API rejects a credential: an early refresh, and after
                             enough rejections a report.
    settings.py              The settings of a connection: checked against the entry's forms when they are given,
                             again when they are used.
    create.py                From a credential to a stored connection, and what one that is authorized again keeps.
    completing.py            The entry's script completes a credential's settings, or refuses it, before anything is
                             stored.
    verify.py                Proves a credential when it is made, and learns whose account it is.
    delete.py                Ends a connection: deleted here first, then its tokens at the provider; the same for
                             one that was never completed.
    api_integrations.py      Integrations that are made, changed and ended through the API. Here at once, elsewhere
                             as soon as the log of changes is read.
    diagnosis.py             Why a connection is as it is: a time line, the likely causes in order, and the one
                             action that helps.

Always true: a call reads the cache alone; a change by another process is known here at once.
"""
