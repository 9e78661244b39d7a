"""A small FastAPI application. Its signed-in users connect an account, and each link is bound to its user.

GATEWAY_URL=… SECRET_KEY=… SIGNING_KEY=… uvicorn --port 8000 tests.journeys.wrong_person.application:app

`SIGNING_KEY`: the environment's webhook signing key (`gateway events key`). Sign-in is a form without a password, and
users are kept in memory. Everything else is what a real application needs.
"""

import os
import secrets
from dataclasses import dataclass
from typing import Annotated

from fastapi import Cookie, FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from gateway.client import (
    AsyncClient,
    GatewayError,
    InvalidReturn,
    code_challenge,
    new_code_verifier,
    verify_return,
)

app = FastAPI()


@dataclass
class Link:
    """The connect session of a user, with the values that complete it. These values stay in the application."""

    session_id: str
    verifier: str
    state: str


users: dict[str, str] = {}  # sign-in cookie ▸ user
links: dict[str, Link] = {}  # user ▸ link; a new link replaces the previous link
connections: dict[str, str] = {}  # user ▸ connection

SignIn = Annotated[str, Cookie(alias="sign-in")]


@app.post("/sign-in/{user}")
async def sign_in(user: str) -> Response:
    response = Response(status_code=204)
    users[ticket := secrets.token_urlsafe(32)] = user
    # with `lax`, browsers send the cookie on the redirect back
    response.set_cookie("sign-in", ticket, httponly=True, samesite="lax")
    return response


@app.get("/connect")
async def connect(request: Request, ticket: SignIn = "") -> Response:
    """Create a link for the signed-in user, and redirect their browser to it."""
    user = user_of_ticket(ticket)
    verifier, state = new_code_verifier(), secrets.token_urlsafe(16)
    async with gateway() as client:
        session = await client.create_connect_session(
            end_user={"id": user, "display_name": user.title()},
            allowed_integrations=["accounts"],
            code_challenge=code_challenge(verifier),
            return_url=str(request.url_for("back")),
            state=state,
            max_connections=1,
        )
    links[user] = Link(session["session_id"], verifier, state)
    return RedirectResponse(session["connect_link"], 303)


@app.get("/back")
async def back(request: Request, ticket: SignIn = "") -> dict[str, str | None]:
    """The return URL: complete only a connection that this signed-in user has made."""
    user = user_of_ticket(ticket)
    link = links.get(user)
    if link is None:
        raise HTTPException(403, "You have not started to connect an account.")
    try:
        result = verify_return(
            str(request.url), os.environ["SIGNING_KEY"], audience=str(request.base_url).rstrip("/"), state=link.state
        )
    except InvalidReturn as fault:
        raise HTTPException(403, f"This is not the link that was made for you. {fault}") from fault
    if result.session_id != link.session_id:
        raise HTTPException(403, "This is not the link that was made for you.")
    if result.outcome == "pending":
        async with gateway() as client:
            try:
                await client.complete_connect_session(
                    link.session_id, link.verifier, connection_id=result.connection_id
                )
            except GatewayError as fault:
                raise HTTPException(409, fault.message) from fault
        connections[user] = str(result.connection_id)
    return {"user": user, "outcome": result.outcome, "connection_id": connections.get(user)}


def user_of_ticket(ticket: str) -> str:
    user = users.get(ticket)
    if user is None:
        raise HTTPException(401, "Sign in first.")
    return user


def gateway() -> AsyncClient:
    return AsyncClient(os.environ["GATEWAY_URL"], os.environ["SECRET_KEY"])
