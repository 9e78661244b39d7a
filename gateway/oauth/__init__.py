"""OAuth 2.0 without I/O: builds the requests of RFC 6749 and reads the responses, also those that deviate from it.

    authorize        builds the authorization URL with PKCE and nonce; checks the issuer of the callback (RFC 9207)
    token_requests   builds token requests and authenticates the client
    token_responses  interprets token responses (RFC 6749 §5): tokens, a refusal, an outage
    error_codes      finds the meaning of a refusal, in any response format

The auth modes (`gateway/auth/`) call these functions. This package does not depend on connections.

Always true: no function does I/O. Only `error_codes` decides from a response's body that a grant is gone. If the
meaning of a refusal is unknown, `refresh/backoff.py` counts how often the refusal repeats.
"""
