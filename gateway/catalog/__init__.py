"""The providers: one YAML file each, checked as a whole, and the template language of their values.

This package turns a folder of files into a `Catalog` of `Provider` entries; no other package reads these files. Read in
this order:

    provider, provider_parts                 the shape of an entry and its parts; docs/catalog.md is made from their docstrings
    evidence                                 the sources of an entry's facts, by group of fields
    auth_modes                               the fields and placeholders of each auth mode
    template, url_template, value            templates with ``${…}``; URL templates; check a value against its setting
    render, hosts                            fill in templates; hosts fixed by an entry, and hosts that a setting chooses
    template_places, checks                  where an entry has templates; checks that a shape cannot express
    yaml_file                                read a file as values with their line numbers
    folder, load_catalog, compiled           one folder; all folders in order; the cache of checked entries
    listing, pagination, refresh_tokens      `GET /providers`; pagination methods; how to get a refresh token
    api_operations, operation_checks         a provider's API operations, read on demand; checks of their files
    brand_icons                              logos: packed brand icons, and the operator's own images
    lint                                     warnings for authors

Always true: an entry is checked before it is used; each fault has file and line; a host comes from the entry, or from a
setting for which the entry allows it.
"""
