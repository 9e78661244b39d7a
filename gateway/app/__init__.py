"""Builds the gateway, opens and closes what it needs, and replaces its configuration while it serves.

This is the composition root: the only package that knows every service. Read in this order:

    compose         the gateway seated on an application
    generations     from a configuration to a generation, and that in place of the one in use
    lifetime        builds the runtime whole: store, cache, refresher, deliverer, background tasks, and their end
    routes          the one table of routes: method, path, and the chain in front of each handler
    reload          another configuration for a gateway that serves: all of it, or none where anything is wrong
    catalog_watch   changed catalog files take effect by themselves, each alone
    gauges          metrics that are read from the runtime when somebody asks

Always true: what lives as long as the process is made, opened and closed here; a request sees one configuration from its
beginning to its end (ADR 46); a reload that fails changes nothing.
"""
