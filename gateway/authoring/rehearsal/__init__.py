"""A rehearsal: one entry of the catalog, with the sandbox in the part of its provider and a real gateway in front.

    play.py               The rehearsal: connect, call, refresh, page, verify, revoke; what each step comes to.
    connect_step.py       The first step: a connection is made, by the browser where the end user is sent to the
                          provider, else by what is typed in.
    rehearsal_gateway.py  The gateway of a rehearsal: the real application on a socket of its own, with a store that
                          lives as long as it does.
    stage.py              The entry as it is played: every origin is one of the sandbox's, while paths, queries and
                          all else stay as they are.
    actor.py              The sandbox in the part of an entry's provider: it takes whatever comes, writes it down,
                          and answers.
    played_answers.py     What the provider answers: tokens where the entry looks for them, and lists cut as the
                          entry says.
    arrival_checks.py     What has to arrive, by the entry alone, held against what did; signatures included.
    token_checks.py       What token requests have to say, mode by mode.
    samples.py            Made-up values for whatever an entry asks for: settings, credentials, clients, keys,
                          certificates.

Always true: what must arrive is worked out from the entry alone, never by the code that sends it.
"""
