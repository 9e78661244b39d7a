"""A proxied call from the caller's body to the provider's answer: send, retry, pass on, record.

The chain ends here (`PROXY(forward)` in `app/routes.py`). Read in this order:

    handler           one exchange from end to end
    attempts          its attempts, each signed where the auth mode signs, until there is an answer to pass on
    caller_body       the caller's body, taken piece by piece, as fast as the provider takes it
    passed_answer     the provider's answer: framing, body as it came or decoded, head
    shaped_answer     a part of an answer: what the caller selects; of a list of tools, those that the key allows
    exchange_watch    ends an exchange when nothing moves, when the caller has left, or when its key has ended
    no_answer         the error where there is no answer to pass on
    upgrade_tunnel    after 101: bytes both ways until one side ends (RFC 9110 §7.8)
    posted_list       a list that is requested by POST: its body, as each page wants it
    page_fetch        one page of a list: requested, retried, read within bounds, decoded
    paged_answer      a whole list for one call, one record a line; a trailer says how it ended
    collected_answer  an answer held as a whole, for a call that begins in this process

Always true: before the answer's first byte a failure is an error of ours with its status, after it the client's connection is
cut; no body is held whole unless it must be signed or sent again.
"""

from gateway.proxy.handler import forward

__all__ = ["forward"]
