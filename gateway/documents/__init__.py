"""YAML and JSON files as values that know the line they stand on.

    nodes.py  YAML or JSON text ▸ nodes: scalars, lists and mappings that know their lines.

Always true: one reader for every YAML file of ours (config/document.py and catalog/yaml_file.py move in when they
become one).
"""
