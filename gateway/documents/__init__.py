"""Parses YAML and JSON text into values with their line numbers.

    nodes               parses text into nodes: scalars, lists and mappings, each with its line
    yaml_faults         turns errors of the YAML parser into messages that say how to fix the file
    read_document       converts nodes into plain values with their lines, and reports faults in the text
    pydantic_messages   turns pydantic's validation errors into messages, for these files and for request bodies

Two packages read files that people write, both with `read_document`: `config` reads gateway.yaml
(`config/document.py`), `catalog` reads entries (`catalog/yaml_file.py`). A `Dialect` states how the two formats differ:
whether ``no`` is a boolean, and whether ``<<`` merges mappings.

Always true: repeated keys, and too many values caused by aliases, are faults with a line; reading executes nothing, and
a YAML tag never creates an object.
"""
