"""gateway.yaml ▸ Config, in one pass that reports every fault at once."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.config import model, rules, store_url
from gateway.config.document import Document, Finding, Place, from_mapping, read_file
from gateway.config.faults import Faults, Readable
from gateway.config.reading import read_shape
from gateway.config.shape import EgressShape, EnvironmentShape, GatewayShape, IntegrationShape, ServerShape, StoreShape
from gateway.config.substitution import Substitution, substitute

EXTENSION = "x-"


def load(path: Path, *, environ: Mapping[str, str] = os.environ) -> model.Config:
    """The configuration in the file at `path`, YAML or JSON; relative paths in it start from its folder.

    Raises Faults with all that is wrong, each as ``file:line``.
    """
    document = read_file(path)
    return _config(document, base=path.parent.absolute(), environ=environ, path=path.absolute())


def parse(document: Mapping[str, Any], *, base: Path, environ: Mapping[str, str] = os.environ) -> model.Config:
    """The configuration in a mapping of the same keys; relative paths start from `base`. Raises Faults."""
    return _config(from_mapping(document), base=base.absolute(), environ=environ, path=None)


def _config(document: Document, *, base: Path, environ: Mapping[str, str], path: Path | None) -> model.Config:
    # Top-level keys that begin with x- are the operator's own: a place for anchors.
    tree = {key: value for key, value in document.tree.items() if not key.startswith(EXTENSION)}
    filled, findings, origins = substitute(tree, Substitution(environ, base))
    faulty = {finding.place for finding in findings}
    shape, misread = read_shape(filled, faulty)
    faulty |= {finding.place for finding in misread}
    broken = list(rules.findings(shape, base, faulty))
    findings += (_with_origin(finding, origins) for finding in (*misread, *broken))
    faults = document.faults(findings)
    left_out = frozenset({*faulty, *(finding.place for finding in broken)})
    config = _built(shape, base, path, document, left_out)
    if faults:
        raise Faults(faults, Readable(config, left_out))
    return config


def _with_origin(finding: Finding, origins: Mapping[tuple[str, ...], str]) -> Finding:
    """With the reference that a value came from, since the file shows no value to find fault with."""
    origin = origins.get(finding.place)
    return replace(finding, message=f"{finding.message} (it came from {origin})") if origin else finding


def _built(
    shape: GatewayShape, base: Path, path: Path | None, document: Document, left_out: Collection[Place]
) -> model.Config:
    environments = {name: _environment(name, environment) for name, environment in shape.environments.items()}
    live = shape.live
    return model.Config(
        server=_server(shape.server),
        live=model.LiveConfig(live.ttl_s, live.max_connections, live.trust_s),
        store=_store(shape.store, base),
        catalog=tuple(
            Path(os.path.normpath(base / folder))
            for index, folder in enumerate(shape.catalog)
            if folder is not None and ("catalog", str(index)) not in left_out
        ),
        environments=environments,
        egress=_egress(shape.egress),
        request_log=model.RequestLogConfig(**shape.request_log.model_dump()),
        webhooks=model.WebhooksConfig(**shape.webhooks.model_dump()),
        branding=model.BrandingConfig(
            shape.branding.name,
            Path(os.path.normpath(base / shape.branding.logo)) if shape.branding.logo else None,
            shape.branding.color,
            shape.branding.color_dark,
        ),
        connect=model.ConnectConfig(**shape.connect.model_dump()),
        path=path,
        document=document,
    )


def _server(shape: ServerShape) -> model.ServerConfig:
    return model.ServerConfig(
        host=shape.host,
        port=shape.port,
        public_url=shape.public_url or model.default_public_url(shape.host, shape.port),
        workers=shape.workers,
        drain_s=shape.drain_s,
        notice_s=shape.notice_s,
        admin_port=shape.admin_port,
        websocket_path=shape.websocket_path,
        admin_host=shape.admin_host,
        limits=model.ClientLimitsConfig(**shape.limits.model_dump()),
    )


def _environment(name: str, shape: EnvironmentShape) -> model.EnvironmentConfig:
    return model.EnvironmentConfig(
        name=name,
        secret_keys=tuple(dict.fromkeys(key for key in shape.secret_keys if key is not None)),
        webhook_url=shape.webhook_url,
        webhook_url_secondary=shape.webhook_url_secondary,
        webhook_signing_key=shape.webhook_signing_key,
        webhook_signing_key_previous=shape.webhook_signing_key_previous,
        variables=shape.variables,
        integrations={key: _integration(key, integration) for key, integration in shape.integrations.items()},
        connect_origins=tuple(dict.fromkeys(origin for origin in shape.connect_origins if origin is not None)),
        connect_links_in_errors=shape.connect_links_in_errors,
        requires_binding=shape.connect_binding == "required",
    )


def _integration(key: str, shape: IntegrationShape) -> model.IntegrationConfig:
    scopes = shape.scopes
    return model.IntegrationConfig(
        provider=shape.provider or key,
        client_id=shape.client_id,
        client_secret=shape.client_secret,
        app_id=shape.app_id,
        app_link=shape.app_link,
        private_key=shape.private_key,
        scopes=None if scopes is None else tuple(scope for scope in scopes if scope is not None),
        display_name=shape.display_name,
        allowed_origins=tuple(origin for origin in shape.allowed_origins if origin is not None),
        allowed_hosts=tuple(dict.fromkeys(host for host in shape.allowed_hosts if host is not None)),
        forward_set_cookie=shape.forward_set_cookie,
        site_selection=shape.site_selection,
        webhook_secret=shape.webhook_secret,
        webhook_secret_previous=shape.webhook_secret_previous,
        forward_webhooks=shape.forward_webhooks,
        allow_unsigned_webhooks=shape.allow_unsigned_webhooks,
    )


def _egress(shape: EgressShape) -> model.EgressConfig:
    return model.EgressConfig(
        allow=tuple(network for network in shape.allow if network is not None),
        proxy=shape.proxy,
        timeouts=model.TimeoutsConfig(**shape.timeouts.model_dump()),
        limits=model.LimitsConfig(**shape.limits.model_dump()),
        page_memory_bytes=shape.page_memory_bytes,
    )


def _store(shape: StoreShape, base: Path) -> model.StoreConfig:
    return model.StoreConfig(
        url=store_url.absolute(shape.url, base),
        encryption_keys=tuple(key for key in shape.encryption_keys if key is not None),
        pool=model.PoolConfig(**shape.pool.model_dump()),
    )
