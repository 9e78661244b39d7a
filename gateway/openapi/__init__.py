"""The description of the API, for programs and for people: ``/openapi.json`` and ``/docs`` (ADR 24).

    operations         every route, one entry: summary, parameters, models, scope, error codes
    codes              the status of each error code, and the codes that any route may answer with
    import_models      the credentials that an import takes, by auth mode
    openapi_document   the operations as an OpenAPI 3.1 document
    answer_examples    an example of every answer, from its schema
    docs_page          the operations as a page, with calls to paste
    openapi_handlers   the two addresses, open to all

Always true: every route has one entry in `operations`, and a test compares the two; a worker loads this package with the
first request for it; nothing of an installation shows.
"""
