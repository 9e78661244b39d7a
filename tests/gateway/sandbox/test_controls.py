"""The sandbox's own controls, such as revoking all grants."""

from tests.gateway.sandbox.conftest import Application

SITES = "/oauth/token/accessible-resources"


async def test_revoking_all_grants_ends_their_tokens_and_no_later_ones(application: Application) -> None:
    tokens = await application.connect()
    async with application.browser.delete(f"{application.base}/sandbox/grants") as response:
        assert (response.status, await response.json()) == (200, {"ended": 1})
    assert (await application.get(SITES, tokens["access_token"]))[0] == 401
    status, refusal = await application.refresh(tokens["refresh_token"])
    assert (status, refusal["error"]) == (400, "invalid_grant")
    later = await application.connect()
    assert (await application.get(SITES, later["access_token"]))[0] == 200
    async with application.browser.delete(f"{application.base}/sandbox/grants") as response:
        assert await response.json() == {"ended": 1}, "the first one has ended already"
