"""``make loss``: tokens and calls that three nodes behind a balancer lose to kills, pauses, network cuts and wrong clocks."""
