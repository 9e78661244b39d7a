"""Who calls and what a key may do: keys, scopes, rules, limits, and the sentences that refuse.

    scopes.py        The scopes there are, and whether those that a key holds cover one that is asked for (api-
                     contract 0.4).
    key_policy.py    One key's scopes, limits and rules, ready to be asked: the same decision for the chain and the
                     fast path.
    refusals.py      Refusals that help: each names the rule, who can change it, and the one next step that works.
    key_forms.py     The form of keys and capabilities that we mint, and what may be wrong with one that is asked
                     for.
    caller.py        Who calls, what it may do, and how often its key may be used.
    known_keys.py    From a bearer to its caller: minted keys in memory, forgotten when any process changes them.
                     Only digests are kept.
    issue_keys.py    Makes and ends keys, for the API and for the command line alike. Nobody gives away more than is
                     theirs.
    invalid_keys.py  How often one client may send an invalid key; who counts as one client.

Always true: only digests of keys are kept; a refusal names the rule and the next step.
"""
