"""YAML and JSON text as values that know the line they stand on.

    nodes               text into nodes: scalars, lists and mappings, each with its line
    read_document       nodes into plain values, the line of each place, and what is wrong with the text
    pydantic_messages   what pydantic finds wrong with such values, or with the body of a request, in our words

Two packages read files that people write, both by `read_document`: `config` (`config/document.py`, gateway.yaml) and `catalog`
(`catalog/yaml_file.py`, entries). Where they differ (is ``no`` a truth value, is ``<<`` a merge), a `Dialect` says it.

Always true: repeated keys and aliases that multiply are faults with a line; nothing is executed, and no tag makes an object.
"""
