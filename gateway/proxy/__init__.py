"""A proxied call from the caller's body to the provider's response: send, retry, pass on, record.

`forward` is the end of the middleware chain (`PROXY(forward)` in `app/routes.py`). Read the files in this order:

    handler             runs one exchange from the caller's request to the end of the response
    attempts            sends, signs and retries the request until there is a response
    caller_body         reads the caller's body piece by piece, as fast as the provider takes it
    passed_response     passes on the provider's response: framing, head, body as received or decoded
    shaped_response     passes on a part of a response: the caller's selection, or the tools that the key allows
    exchange_watch      ends an exchange when no byte moves, the caller disconnects, or its key is no longer valid
    no_response         makes the error for the caller when there is no response to pass on
    upgrade_tunnel      relays bytes between caller and provider after a 101 (RFC 9110 §7.8)
    posted_list         composes the body for each page of a list that is requested by POST
    page_fetch          fetches one page of a list: requests, retries, reads within limits, decodes
    paged_response      streams a whole list as one response, one record per line, then a trailer with the outcome
    collected_response  defines request and response of a call that begins in this process

Always true: if a failure occurs before the first byte of the response, the caller gets an error with its own status. A
later failure closes the caller's connection; only a list of pages ends with a trailer that names the error. The gateway
keeps a whole body in memory only to sign, check, change, shape or repeat it.
"""

from gateway.proxy.handler import forward

__all__ = ["forward"]
