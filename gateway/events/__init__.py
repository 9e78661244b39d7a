"""Events out to the customer's application, and providers' webhooks in.

    event_body.py    The bodies of events (api-contract 6.1, 6.2), with `event` and `timestamp` added: JSON, keys
                     sorted, UTF-8.
    signatures.py    Signatures of events, and the keys that sign them: from gateway.yaml, or made by us.
    delivery.py      Works off the outbox: one attempt, when it is repeated, how much goes to one target at a time.
    event_keeper.py  What one process does for all: tells of connections whose end is in sight, and counts what
                     waits to be sent.
    receive.py       Providers' webhooks on their way in: proved, remembered, and queued for the application in one
                     transaction.

Always true: an event is in the outbox in the transaction of its change; receivers may get it twice and never not at
all.
"""
