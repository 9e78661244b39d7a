"""OAuth 2.0 without I/O: builds the requests of RFC 6749 and reads the replies, those that deviate too.

    authorize        the address that the browser is sent to, with PKCE and nonce; whose answer it brings back (RFC 9207)
    token_requests   what a token endpoint is sent, and how the client authenticates
    token_answers    what its answers mean (RFC 6749 §5): tokens, a refusal, an outage
    error_codes      which refusal an answer is, whatever its shape

The auth modes (`gateway/auth/`) call these functions; nothing here knows a connection.

Always true: no I/O; only `error_codes` decides from an answer's content that a grant is gone. A refusal of unknown meaning
counts by repetition, in `refresh/backoff.py`.
"""
