"""The built-in fake provider: an issue tracker behind OAuth 2.0, in its own process, for `gateway demo` and for tests.

It plays its part well rather than kindly: codes are used once, refresh tokens rotate, a replayed one revokes the whole
grant, access tokens live a minute, and faults can be switched on. It imports nothing of the gateway but the clock, so
that it cannot agree with a mistake of ours.
"""
