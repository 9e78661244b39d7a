"""Each response has a page with a nonce of its own. A page that takes long to render is rendered only once."""

import re

import pytest

from gateway.pages.templates import Templates
from tests.fakes.gateways import RunningGateway


async def test_api_reference_is_rendered_once_and_has_a_new_nonce_in_each_response(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    original = Templates.get_template

    def record_and_render(self: Templates, name: str) -> object:
        rendered.append(name)
        return original(self, name)

    monkeypatch.setattr(Templates, "get_template", record_and_render)
    nonces, pages = set(), set()
    for _ in range(3):
        async with running.http.get(f"{running.url}/docs") as response:
            found = re.search(r"script-src 'nonce-([^']+)'", response.headers["Content-Security-Policy"])
            assert response.status == 200
            assert found is not None
            text = await response.text()
        assert text.count(f'nonce="{found[1]}"') == text.count(' nonce="') > 1
        nonces.add(found[1])
        pages.add(text.replace(found[1], ""))
    assert rendered == ["docs.html"]
    assert (len(nonces), len(pages)) == (3, 1)
