"""What the API is, told to programs and to people: ``/openapi.json`` and ``/docs``.

operations   one line a route: summary, models, error codes, scope. A test holds it against the table of routes
answers      what our answers look like, as models; requests have theirs where they are read
document     the two as an OpenAPI 3.1 document
page         the same as a page
handlers     made when first asked for: nothing here but this last is loaded by a worker at rest
"""
