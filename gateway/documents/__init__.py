"""YAML and JSON text as values that know the line they stand on.

    nodes   text into nodes: scalars, lists and mappings, each with its line

Two packages read files that people write: `config` (`config/document.py`, gateway.yaml) builds on these nodes; `catalog`
(`catalog/yaml_file.py`, entries) takes its wording of YAML errors from here.

Always true: repeated keys and aliases that multiply are faults with a line; nothing is executed, and no tag makes an object.
"""
