"""Which integrations there are: declared in gateway.yaml, or made through the API.

    registry.py  The integrations there are, by environment and key: those that gateway.yaml declares, and those
                 made through the API.
    declared.py  What gateway.yaml declares, held against the catalog: what only both together can tell is told
                 here.

Always true: one registry answers which integration a key of an environment means.
"""
