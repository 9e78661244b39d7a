"""What end users see: HTML from `templates/`, escaped throughout, without script and without any file from elsewhere.

    templates.py       Jinja under an application key of our own, so that a host which uses aiohttp-jinja2 itself is
                       not disturbed.
    frame.py           The frame of every page for end users: words, files, language, brand, and the headers that
                       keep others out.
    error_page.py      The page that says what went wrong and what to do about it.
    connect_offer.py   What a connect session offers, as its page shows it: names, logos, scopes in plain words.
    connect_cookie.py  How a browser shows which connect session its page is of, without the token in any address.
    connect_view.py    What the connect page shows: the list, a form, an empty frame, and a link that does not work.
    connect_page.py    The connect page: what a session offers, what will be granted, the form, and the way to the
                       provider and back.
    form_fields.py     The form of an entry: what an end user is asked for, and what came back from the browser.
    redirects.py       To the provider's consent page and back: the browser sets out, and returns with what came of
                       it.
    guide.py           ``GET /providers/{provider}/guide``: how to set up a provider, made from its entry.
    guide_steps.py     What there is to do until a provider's first connection is there: the steps of requirement 1,
                       as its entry has them.
    result.py          The last pages of a connect session: what has come of it, at an address that can be loaded
                       again, and the way back to the
    confirmation.py    The confirmation that no way in can skip: a person has seen for whom and for which
                       application this account is connected,
    lazy_pages.py      The pages' handlers, loaded with the first request for one: most workers never serve any, and
                       they cost each a megabyte.

Always true: no page shows a secret; every text comes from `templates/connect/words/`.
"""
