"""``make loss``: what three nodes behind a balancer lose to kills, pauses, network cuts and wrong clocks."""
