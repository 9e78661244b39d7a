"""The providers: one YAML file each, checked as a whole, and the template language of their values.

    yaml_file.py        A catalog file as plain values, every value's line still known, and what is wrong with
                        catalog files.
    provider.py         The shape of a catalog entry: what a provider's YAML file may say, and `/providers` shows
                        (requirement 2.1).
    provider_parts.py   The parts of an entry: settings, token requests, signing, traffic, webhooks; and their
                        closed word lists.
    auth_modes.py       The auth modes as the catalog knows them: which fields of an entry each reads, and which
                        placeholders it fills.
    value.py            Whether a value fits its setting: asked when a connection is saved, and again whenever the
                        value goes into a URL.
    template.py         The template language: text with ``${…}`` in it, parsed once; its functions and moments.
    template_places.py  Where an entry holds templates, and what can fill them: places as paths in the file, for
                        messages with a line.
    address.py          Addresses with placeholders, taken apart: scheme, host, port, path and query, each of
                        literal text and names.
    render.py           Filling in templates: `render_text` for headers, query and parameters, `render_url` for
                        addresses.
    hosts.py            Hosts that an entry names itself, and hosts that a connection's setting chooses.
    checks.py           What a shape cannot say: whether an entry and its templates make sense. Each check yields
                        the place and the fault.
    folder.py           One folder of YAML ▸ its entries, each whole with what it inherits, and all that is wrong
                        with its files.
    load_catalog.py     Folders of YAML ▸ the catalog: the shipped folder first; a later one adds, replaces or
                        inherits.
    compiled.py         A large folder's entries, checked and ready, in one file: read in milliseconds where a
                        thousand YAML files take a second.
    listing.py          The list behind ``GET /providers``: every body made once for a catalog, pages cut from the
                        finished pieces.
    lint.py             What could be better in catalog files: every fault, and warnings about what works but is
                        missing or odd.
    json_schema.py      The JSON Schema of an entry, for editors: ``catalog/_schema.json``, which shipped files name
                        in their first line.
    pagination.py       From an entry's `paginate`, its alternatives and what a caller says about it to the ways in
                        which a list may be cut.
    refresh_tokens.py   What brings a refresh token, as far as an entry knows: the scope to ask for, or what to do
                        where that was not enough.

Always true: an entry is checked before anything uses it; every fault carries file and line.
"""
