"""The pages for end users: escaped HTML from `templates/`; no script is needed, nothing is loaded from elsewhere.

    lazy_pages                    the handlers, imported at the first request for a page
    frame, templates              what all pages share: texts, language, brand, headers; Jinja under its own app key
    connect_page, connect_view    handlers of the connect page and its forms; rendering of the connect page
    connect_offer, form_fields    what a session offers; the fields of a form, from the provider's catalog entry
    connect_cookie, confirmation  finds the session of a page; proof that a person saw and confirmed a connection
    redirects                     the redirect to the provider's consent page, and the callback
    result, error_page            the result of a session and the link to the application; the page for errors
    guide, guide_steps            `GET /providers/{provider}/guide`: how to set up a provider
    root_pages                    `GET /` for browsers, `GET /guides`, and the page for unknown URLs

Always true: no page shows a secret or a token; the connect page's texts come from `templates/connect/words/`; no other
site can submit a form of these pages, and only registered origins may embed a page.
"""
