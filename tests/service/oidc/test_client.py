"""What the client accepts: real signatures of several kinds, and a provider that is broken or hostile in many ways."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, OctKey, RSAKey

from cgsa.errors import CgsaError
from cgsa.service.links.secret import Secret
from cgsa.service.oidc import discovery
from cgsa.service.oidc.client import CALLBACK, OidcClient
from cgsa.service.oidc.config import GroupRights, OidcConfig

ISSUER, ADDRESS = "https://login.plant", "https://cgsa.plant"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
ELLIPTIC = ECKey.generate_key("P-256", {"kid": "ec"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
RIGHTS = (GroupRights("press", "operator"),)


class ToyProvider:
    """Answers as a provider does; attributes change one thing each."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth?realm=a",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
        }
        self.keys: list[Key] = [RSA, ELLIPTIC]
        self.signs: Key = RSA
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "rsa"}
        self.claims: dict[str, Any] = {}
        """Claims that differ from the usual ones; None leaves one out."""
        self.userinfo: dict[str, Any] = {"sub": "1", "preferred_username": "other", "groups": ["other"]}
        self.fails: Callable[[httpx.Request], httpx.Response | None] = lambda _: None
        self.nonce = ""
        self.asked: list[str] = []
        self.form: dict[str, list[str]] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        failed = self.fails(request)
        if failed is not None:
            return failed
        match request.url.path:
            case "/.well-known/openid-configuration":
                return httpx.Response(200, json=self.document)
            case "/keys":
                return httpx.Response(200, json=KeySet(self.keys).as_dict())
            case "/me":
                return httpx.Response(200, json=self.userinfo)
            case _:
                self.form = parse_qs(request.content.decode())
                return httpx.Response(200, json={"id_token": self.id_token(), "access_token": "a"})

    def id_token(self) -> str:
        now = int(time.time())
        usual = {
            "iss": ISSUER,
            "aud": "cgsa",
            "sub": "1",
            "nonce": self.nonce,
            "iat": now,
            "exp": now + 300,
            "preferred_username": "ann",
            "groups": ["press"],
        }
        claims = {name: value for name, value in (usual | self.claims).items() if value is not None}
        return jwt.encode(self.header, claims, self.signs, algorithms=[self.header["alg"]])


def client_of(provider: ToyProvider, **settings: Any) -> OidcClient:
    config = OidcConfig(ISSUER, "cgsa", rights=RIGHTS, **settings)
    return OidcClient(config, ADDRESS, httpx.MockTransport(provider))


async def log_in(client: OidcClient, provider: ToyProvider, **answer: str) -> str:
    address, cookie = await client.begin("/machine/press-1")
    asked = httpx.URL(address).params
    provider.nonce = asked["nonce"]
    login = await client.complete(cookie, {"state": asked["state"], "code": "c", **answer})
    assert login.target == "/machine/press-1"
    return login.person.name


def test_what_the_client_asks_and_sends() -> None:
    provider = ToyProvider()
    client = client_of(provider, scopes=("profile", "groups"))

    async def go() -> None:
        address, _ = await client.begin("/")
        asked = httpx.URL(address).params
        assert asked["realm"] == "a", "a query of the endpoint stays"
        assert (asked["response_type"], asked["scope"]) == ("code", "openid profile groups")
        assert (asked["redirect_uri"], asked["code_challenge_method"]) == (ADDRESS + CALLBACK, "S256")
        assert await log_in(client, provider) == "oidc:ann"

    asyncio.run(go())
    assert provider.form["grant_type"] == ["authorization_code"]
    assert provider.form["client_id"] == ["cgsa"]
    assert "client_secret" not in provider.form
    assert provider.asked == ["/.well-known/openid-configuration", "/token", "/keys"], "nothing twice"


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (ELLIPTIC, "ES256")])
def test_signatures_that_are_accepted(key: Key, algorithm: str) -> None:
    provider = ToyProvider()
    provider.signs, provider.header = key, {"alg": algorithm, "kid": key.kid}
    assert asyncio.run(log_in(client_of(provider), provider)) == "oidc:ann"


def test_a_missing_claim_is_read_from_the_userinfo_endpoint() -> None:
    provider = ToyProvider()
    provider.claims = {"groups": None}
    provider.userinfo["groups"] = "press"
    assert asyncio.run(log_in(client_of(provider), provider)) == "oidc:ann", "what the ID token states holds"
    provider.userinfo["sub"] = "2"
    with pytest.raises(CgsaError, match="about another person"):
        asyncio.run(log_in(client_of(provider), provider))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"iss": "https://evil"}, "'iss'"),
        ({"aud": "other"}, "'aud'"),
        ({"aud": ["cgsa", "other"], "azp": "other"}, "issued to another client"),
        ({"nonce": "of another login"}, "'nonce'"),
        ({"nonce": None}, "'nonce'"),
        ({"sub": None}, "'sub'"),
        ({"exp": int(time.time()) - 120}, "expired"),
        ({"exp": None}, "'exp'"),
        ({"iat": int(time.time()) + 3600}, "issued in the future"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], message: str) -> None:
    provider = ToyProvider()
    provider.claims = claims
    with pytest.raises(CgsaError, match=message) as found:
        asyncio.run(log_in(client_of(provider), provider))
    assert getattr(found.value, "status", None) == 401


def test_a_clock_may_differ_a_little() -> None:
    provider = ToyProvider()
    provider.claims = {"iat": int(time.time()) + 50, "exp": int(time.time()) - 50}
    assert asyncio.run(log_in(client_of(provider), provider)) == "oidc:ann"


@pytest.mark.parametrize(
    ("key", "header"),
    [
        (STRANGER, {"alg": "RS256", "kid": "rsa"}),
        (OctKey.import_key("a secret of many characters"), {"alg": "HS256", "kid": "rsa"}),
        (OctKey.import_key("a secret of many characters"), {"alg": "none", "kid": "rsa"}),
        (RSA, {"alg": "RS256", "kid": "unknown"}),
        (RSA, {"alg": "RS256"}),
    ],
    ids=["forged", "a secret for a pair of keys", "none", "unknown key", "no key"],
)
@pytest.mark.filterwarnings("ignore:JWS algorithm")  # of the one who makes the token
def test_signatures_of_nobody_are_refused(key: Key, header: dict[str, Any]) -> None:
    provider = ToyProvider()
    provider.signs, provider.header = key, header
    with pytest.raises(CgsaError, match="ID token of the provider is not valid"):
        asyncio.run(log_in(client_of(provider), provider))


def test_changed_keys_are_fetched_again_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = ToyProvider()
    client = client_of(provider)

    async def go() -> None:
        await log_in(client, provider)
        fresh = RSAKey.generate_key(2048, {"kid": "fresh"})
        provider.keys, provider.signs, provider.header = [fresh], fresh, {"alg": "RS256", "kid": "fresh"}
        for _ in range(3):
            with pytest.raises(CgsaError):
                await log_in(client, provider)
        assert provider.asked.count("/keys") == 1, "tokens with odd keys make nobody flood the provider"
        monkeypatch.setattr(discovery, "RETRY_SECONDS", -1.0)
        assert await log_in(client, provider) == "oidc:ann"

    asyncio.run(go())


def test_an_answer_of_another_provider_is_refused() -> None:
    provider = ToyProvider()
    client = client_of(provider)
    with pytest.raises(CgsaError, match="of another provider"):
        asyncio.run(log_in(client, provider, iss="https://evil"))
    assert provider.asked == ["/.well-known/openid-configuration"], "its code is shown to nobody"
    strict = ToyProvider()
    strict.document["authorization_response_iss_parameter_supported"] = True
    with pytest.raises(CgsaError, match="of another provider, None"):
        asyncio.run(log_in(client_of(strict), strict))
    assert asyncio.run(log_in(client_of(strict), strict, iss=ISSUER)) == "oidc:ann"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"issuer": "https://evil"}, "calls itself 'https://evil'; expected exactly 'https://login.plant'"),
        ({"token_endpoint": "http://login.plant/token"}, "expected an https address"),
        ({"jwks_uri": None}, "has no jwks_uri"),
        ({"authorization_endpoint": 7}, "authorization_endpoint is 7"),
    ],
)
def test_a_wrong_discovery_document_is_refused(change: dict[str, Any], message: str) -> None:
    provider = ToyProvider()
    provider.document |= change
    with pytest.raises(CgsaError, match=message):
        asyncio.run(client_of(provider).begin("/"))


def _down(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (_down, "connection refused"),
        (lambda _: httpx.Response(500, text="oops"), "answers 500"),
        (lambda _: httpx.Response(200, text="<html>"), "answers 200"),
        (lambda _: httpx.Response(302, headers={"Location": "https://evil"}), "answers 302"),
        (lambda _: httpx.Response(200, content=b" " * (discovery.MAX_BYTES + 1)), "more than 1048576 bytes"),
    ],
)
def test_a_provider_that_is_away_is_asked_now_and_then(
    fails: Callable[[httpx.Request], httpx.Response], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = ToyProvider()
    provider.fails = fails
    client = client_of(provider)

    async def go() -> None:
        for _ in range(3):
            with pytest.raises(CgsaError, match=f"does not work at present: .*{message}") as found:
                await client.begin("/")
            assert getattr(found.value, "status", None) == 503
        assert len(provider.asked) == 1
        monkeypatch.setattr(discovery, "RETRY_SECONDS", -1.0)
        provider.fails = lambda _: None
        assert await log_in(client, provider) == "oidc:ann"

    asyncio.run(go())


def test_the_secret_is_sent_as_the_provider_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("s & t")
    provider = ToyProvider()
    provider.document["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    assert asyncio.run(log_in(client_of(provider, client_secret=Secret(str(path))), provider)) == "oidc:ann"
    assert provider.form["client_secret"] == ["s & t"]
