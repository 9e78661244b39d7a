"""The end of PROXY: streams the request out and the provider's answer back.

    handler.py         One exchange from end to end.
    attempts.py        The attempts of one exchange, each signed: sent until there is an answer to pass on.
    caller_body.py     The caller's body on its way to the provider: taken piece by piece, as fast as the provider
                       takes them.
    passed_answer.py   A provider's answer on its way to the caller: framing, body as it came or decoded, head.
    exchange_watch.py  Watches one exchange: ends it when nothing has moved for too long, when the caller has left,
                       or when its key has ended.
    no_answer.py       What the caller hears when there is no answer to pass on.
    upgrade_tunnel.py  After 101: bytes both ways as they come, until one side ends (RFC 9110 §7.8). Nothing in
                       between is looked at.
    paged_answer.py    A whole list for one call: page after page, their records as one stream of lines; a trailer
                       says how it ended.
    page_fetch.py      One page: asked for, also later where its provider says so, read within bounds, decoded.

Always true: before the answer's first byte a failure is an error of ours, with its status; after it the client's
connection is cut.
"""

from gateway.proxy.handler import forward

__all__ = ["forward"]
