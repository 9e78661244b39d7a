"""What a running gateway cannot change: it was used up at the start, for a socket, a process or the store."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.config.document import Place
from gateway.config.model import Config, default_public_url

# Asked for by 0, a port is whatever the system gave out; that is no wish to change it.
FIXED: Final[Mapping[Place, Any]] = {
    ("server", "host"): None,
    ("server", "port"): 0,
    ("server", "workers"): None,
    ("server", "drain_s"): None,
    ("server", "notice_s"): None,
    ("server", "admin_port"): 0,
    ("server", "admin_host"): None,
    ("server", "websocket_path"): None,
    ("server", "limits"): None,
    ("store", "url"): None,
    ("store", "pool"): None,
}


def with_fixed(new: Config, running: Config) -> tuple[Config, list[Place]]:
    """`new` as far as it can take effect under `running`, and the places of what needs a restart."""
    ignored = []
    for place, any_will_do in FIXED.items():
        wanted, kept = _at(new, place), _at(running, place)
        if wanted != kept and (kept is None or any_will_do is None or wanted != any_will_do):
            ignored.append(place)
    server = new.server
    derived = server.public_url == default_public_url(server.host, server.port)
    host, port = running.server.host, running.server.port
    public_url = default_public_url(host, port) if derived else server.public_url
    store = replace(running.store, encryption_keys=new.store.encryption_keys)
    return replace(new, server=replace(running.server, public_url=public_url), store=store), ignored


def _at(config: Config, place: Place) -> Any:
    section, key = place
    return getattr(getattr(config, section), key)
