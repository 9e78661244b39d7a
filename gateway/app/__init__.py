"""Builds the gateway, opens and closes what it needs, and replaces its configuration.

    compose.py        The composition root: builds Services and seats them on an application; `lifetime` opens and
                      closes them with it.
    lifetime.py       What lives as long as the application: the store and all that stands on it, the tasks that go
                      on by themselves, their end.
    routes.py         The one table of routes: each line says who may enter, and where the request ends.
    reload.py         Another configuration for a gateway that serves: all of it or, where anything is wrong with
                      it, none of it.
    catalog_watch.py  Catalog files that change while the gateway serves: each takes effect by itself, without a
                      signal and without a restart.
    gauges.py         What is not counted but simply so, for metrics: read from the services whenever somebody asks.

Always true: everything that lives as long as the process is made, opened and closed here and nowhere else.
"""
