"""A proxied call from the caller's body to the provider's response: send, retry, pass on, record.

The chain ends here (`PROXY(forward)` in `app/routes.py`). Reading order:

    handler             runs one exchange from end to end
    attempts            sends and retries the request, signed if the auth mode signs, until there is a response
    caller_body         reads the caller's body piece by piece, as fast as the provider takes it
    passed_response     passes on the provider's response: framing, head, body as received or decoded
    shaped_response     passes on a part of a response: the caller's selection, or the tools that the key allows
    exchange_watch      ends an exchange when no byte moves, the caller disconnects, or its key is no longer valid
    no_response         makes the error when there is no response to pass on
    upgrade_tunnel      after 101: relays bytes both ways until one side closes (RFC 9110 §7.8)
    posted_list         a list that is requested by POST: composes the body for each page
    page_fetch          fetches one page of a list: requests, retries, reads within limits, decodes
    paged_response      streams a whole list as one response, one record per line, then a trailer with the outcome
    collected_response  a call that begins in this process: its request, and its whole response in memory

Always true: a failure before the first byte of the response is an error with a status of its own. A later failure cuts
the client's connection; only a list of pages ends with a trailer that names the error. A body is held whole only if it
must be signed, checked, changed, shaped or sent again.
"""

from gateway.proxy.handler import forward

__all__ = ["forward"]
