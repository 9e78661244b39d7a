"""The providers: one YAML file each, checked as a whole, and the template language of their values.

This package reads folders of these files into a `Catalog` of `Provider` entries. No other package reads the files.
Modules in reading order:

    provider, provider_parts                 the fields of an entry; docs/catalog.md is made from their docstrings
    evidence                                 the sources of an entry's facts, by group of fields
    auth_modes                               the fields and placeholders of each auth mode
    template, url_template, value            parse templates with ``${…}`` and URL templates; check a setting's value
    render, hosts                            fill in templates; find the hosts that a setting can choose
    template_places, checks                  list an entry's templates; check what pydantic cannot check
    yaml_file                                read a file into values with their line numbers
    folder, load_catalog, compiled           read one folder; read all folders in order; cache checked entries
    listing, pagination, refresh_tokens      `GET /providers`; pagination methods; how to get a refresh token
    api_operations, operation_checks         read a provider's API operations; check the files of operations
    brand_icons                              read logos: packed brand icons, and the operator's own images
    lint                                     return warnings for authors of entries

Always true: an entry is checked before it is used. Each fault in a file names the file and the line. A URL's host comes
from the entry, or from a setting that the entry allows to choose the host.
"""
