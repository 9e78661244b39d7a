"""What the API is, for programs and for people: ``/openapi.json`` and ``/docs``.

    operations.py        Every route, one entry each.
    codes.py             Which status each error code leaves with, and which codes any route may answer with.
    import_models.py     The credentials that an import takes, by auth mode: for people to read. The modes
                         themselves check them (`gateway.auth`).
    openapi_document.py  The operations as an OpenAPI 3.1 document.
    docs_page.py         The operations as the page ``/docs`` shows them, with calls to paste.
    openapi_handlers.py  ``GET /openapi.json`` and ``GET /docs``. Open to all: they tell what docs/http-api.md does,
                         and nothing of this installation

Always true: every route has one entry in `operations`; a test compares the two. Nothing here is loaded by a worker at
rest.
"""
