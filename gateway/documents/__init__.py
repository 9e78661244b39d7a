"""Parses YAML and JSON text into values with their line numbers.

    nodes               parses text into nodes: scalars, lists and mappings, each with its line
    read_document       converts nodes into plain values and the line of each; reports faults in the text
    pydantic_messages   turns pydantic's validation errors (of such files or of request bodies) into our messages

Two packages read files that people write, both with `read_document`: `config` (`config/document.py`, gateway.yaml) and
`catalog` (`catalog/yaml_file.py`, entries). A `Dialect` states how they differ: whether ``no`` is a boolean, and
whether ``<<`` merges.

Always true: repeated keys and too many values by aliases are faults with a line; nothing is executed, no tag creates an
object.
"""
