"""The pages for end users: escaped HTML from `templates/`; no script is needed, nothing is loaded from elsewhere.

    lazy_pages                        the handlers, loaded with the first request for a page
    frame, templates                  the frame of every page: words, language, brand, headers; Jinja under a key of ours
    connect_page, connect_view        the connect page and its forms' handlers; what it shows
    connect_offer, form_fields        what a session offers; the fields of a form, from the entry's settings and credentials
    connect_cookie, confirmation      which session a page belongs to; that a person saw for whom they connect
    redirects                         to the provider's page and back: begin and callback
    result, error_page                how a session ended, and the way back; what went wrong and what to do
    guide, guide_steps                `GET /providers/{provider}/guide`: how to set a provider up
    front_door                        `GET /` for browsers, `GET /guides`, and the page where there is nothing

Always true: no page shows a secret or a token; every text comes from `templates/connect/words/`; a page answers no other
origin.
"""
