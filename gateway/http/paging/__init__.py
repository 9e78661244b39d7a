"""Pages of a list: their records cut out of the JSON they came in, and where the next one lies. No I/O.

    paginate_header.py  What ``Gateway-Paginate`` says: an item of RFC 8941 §3.3 with parameters, ``all;
                        type=cursor; response_path="a.b"``.
    page_document.py    One page of JSON, taken apart where it is needed: its records as the bytes they came in, and
                        single values beside them.
    next_page.py        Where the next page lies: in the answer, in a Link field; and when pages go round in a
                        circle.
    resume_position.py  A position as text and back, for the resume cursor; and a request that asks for the page at
                        a position.

Always true: records leave as the bytes they came in; a hostile page costs time, not memory.
"""
