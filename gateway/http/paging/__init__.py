"""Pages of a list: extracts the records from a page's JSON, and finds the next page. No I/O.

    paginate_header   parses ``Gateway-Paginate``: the caller's options for paging
    page_document     reads one page of JSON: its records as their original bytes, and single values
    next_page         finds the next page: in the body, in a Link field, by counting; detects pages that repeat
    list_body         writes cursor, offset and page size into a POST's JSON body; checks GraphQL requests
    resume_position   writes and parses a position, for the resume cursor

`proxy/paged_response.py` fetches the pages. The manual is docs/pagination.md.

Always true: records are passed on as their original bytes; a hostile page costs time, not memory.
"""
