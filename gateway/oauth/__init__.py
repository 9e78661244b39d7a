"""OAuth 2.0 without I/O: builds the requests of RFC 6749 and reads their replies, the bent ones too.

    authorize.py       The address an end user's browser is sent to, with PKCE and nonce, and whose answer it brings
                       back.
    token_requests.py  What a token endpoint is asked, and how our client identifies itself there.
    token_answers.py   What a token endpoint's answers mean (RFC 6749 §5).
    error_codes.py     Which refusal a token endpoint's answer is, whatever shape it has; its JSON read leniently.

Always true: no I/O; only `error_codes` decides which refusal is final.
"""
