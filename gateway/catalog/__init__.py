"""The providers: one YAML file each, checked as a whole, and the template language of their values.

A folder of files becomes a `Catalog` of `Provider` entries; nothing else of the gateway reads these files. Read in this order:

    provider, provider_parts                 the shape of an entry and of its parts; their docstrings are docs/catalog.md
    evidence                                 what an entry's facts rest on, by group of fields
    auth_modes                               which fields and placeholders each auth mode has
    template, address, value                 templates with ``${…}``; addresses taken apart; whether a value fits its setting
    render, hosts                            fills templates in; hosts that an entry names, and those that a setting chooses
    template_places, checks                  where an entry has templates; faults that a shape cannot express
    yaml_file                                a file as values that know their lines
    folder, load_catalog, compiled           one folder; all folders in order; the cache of checked entries
    listing, pagination, refresh_tokens      `GET /providers`; how lists are cut; what brings a refresh token
    api_operations, operation_checks         a provider's API operations, read when asked; what is wrong with their files
    brand_icons                              logos: brands' icons, packed, and an operator's own
    lint                                     warnings for authors

Always true: an entry is checked before anything uses it; each fault has file and line; a host comes from the entry, or from
a setting that the entry allows to choose it.
"""
