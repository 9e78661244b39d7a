"""The description of the API, for programs and for people: ``/openapi.json`` and ``/docs`` (ADR 24).

    operations          one entry for every route: summary, parameters, models, scope, error codes
    codes               the status of each error code, and the codes that any route may return
    import_models       the credentials that an import accepts, by auth mode
    openapi_document    the operations as an OpenAPI 3.1 document
    response_examples   an example of every response, built from its schema
    docs_page           the operations as a page, with calls to copy
    openapi_handlers    the two handlers; no key is needed

Always true: every route has one entry in `operations`, and a test checks this; a worker imports only
`openapi_handlers` before the first request for a page; the output contains the installation's public URL and no other
data of the installation.
"""
