"""Builds the gateway, opens and closes what it needs, and replaces its configuration while it serves.

This is the composition root: the only package that knows every service. Read in this order:

    compose         adds the gateway to an application
    generations     checks a configuration, builds a generation from it, and replaces the generation in use
    lifetime        builds and closes the runtime: store, cache, refresher, deliverer, background tasks
    routes          the table of all routes: method, path, and the middleware chain in front of each handler
    reload          replaces the configuration of a running gateway: completely, or not at all if anything is wrong
    catalog_watch   applies changed catalog files without a reload, each file separately
    gauges          metrics that are read from the runtime when they are requested

Always true: objects that exist as long as the process are created, opened and closed here; a request sees one
configuration from start to end (ADR 46); a reload that fails changes nothing.
"""
