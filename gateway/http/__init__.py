"""Pure functions on HTTP messages: no I/O, no aiohttp application.

    url.py               Paths and queries of a request line, joined byte for byte; dot segments as the most lenient
                         reader sees them.
    origin.py            Where a request may go: scheme, host and port, read by one strict parser, so that no two
                         readers can differ.
    fields.py            Field names by kind, in lower case: the tables that decide what passes; the media type of a
                         Content-Type.
    headers.py           Which header fields pass, in either direction (RFC 9110 §7.6.1): pure functions over the
                         tables of `fields`.
    request_head.py      The head of a request: what it must be before anybody acts on it, and as bytes.
    answer_head.py       The head of an answer, read strictly: what two readers could take differently is no head at
                         all.
    passed_head.py       The head of an answer as it is passed on to the caller: its framing, which is ours, and its
                         lines.
    added_fields.py      Fields that we add to a provider's answer: against harm in browsers and caches, and Server-
                         Timing.
    chunks.py            The chunked transfer coding, undone (RFC 9112 §7.1), strictly and with limits; extensions
                         and trailers are dropped.
    content_coding.py    Content codings undone piece by piece (RFC 9110 §8.4), within limits, so that a small
                         answer cannot fill the memory.
    body_members.py      Members that a provider wants in the body beside the caller's: a JSON object or a form,
                         read and written anew.
    json_scan.py         Finds the end of a JSON value without building it (RFC 8259), so that a hostile page costs
                         time, not memory.
    strict_json.py       Bytes ▸ JSON, taken strictly: what two readers could take for two things, or what nobody
                         could store, is refused.
    references.py        Link fields (RFC 8288), and links in an answer that lead back into the provider's API,
                         turned to lead through us.
    retry.py             Whether a request may be sent again and after how long; Retry-After and its like.
    proxy_options.py     What a caller asks of the gateway itself in headers of a proxied call (api-contract 3.1),
                         all faults told at once.
    ids.py               Which characters integration and connection ids may have, and which one of a text is not
                         among them.
    redacted_request.py  A request as it would be sent, with its credential out of sight: for people who want to see
                         what leaves.
    abort.py             Ends a client's connection so that nobody can take a torn answer for a whole one.
    websocket.py         Whether the caller asks to switch to WebSocket (RFC 9110 §7.8, RFC 6455 §4.1).

Always true: each rule cites its RFC section; what two readers could read differently is refused.
"""
