"""Pages of a list: records cut out of their JSON, and where the next page is. No I/O.

    paginate_header   ``Gateway-Paginate``: an item with parameters (RFC 8941 §3.3)
    page_document     one page of JSON: its records as the bytes they came in, and single values beside them
    next_page         where the next page is: in the body, in a Link field, by counting; and when pages repeat
    list_body         a POST's JSON body with cursor, offset and page size in it; what a GraphQL request must be
    resume_position   a position as text and back, for the resume cursor

`proxy/paged_answer.py` fetches the pages, docs/pagination.md is the manual.

Always true: records leave as the bytes they came in; a hostile page costs time, not memory.
"""
