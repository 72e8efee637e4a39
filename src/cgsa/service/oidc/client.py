"""The service as a client of an identity provider: from the button on the login page to a person."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote_plus, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from cgsa.service.oidc.attempt import LoginAttempt, LoginAttempts
from cgsa.service.oidc.claims import find_claim, person_of
from cgsa.service.oidc.config import OidcConfig
from cgsa.service.oidc.discovery import Discovery, ProviderClient, ProviderMetadata
from cgsa.service.rights import NotAllowedError, Person

CALLBACK = "/login/oidc/callback"
"""Path to which the provider sends the browser back."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures with a pair of keys; nobody but the provider can make them."""
LEEWAY_SECONDS = 60
"""By how much the clocks of provider and service may differ."""


@dataclass(frozen=True)
class OidcLogin:
    """A person who logged in at the provider."""

    person: Person
    subject: str
    """What the provider calls the person; never given to another one."""
    id_token: str
    target: str
    """Page to open."""


class OidcClient:
    """Logs people in with an identity provider; used by one event loop.

    ``address`` is that of the service for browsers.
    """

    def __init__(self, config: OidcConfig, address: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.config = config
        self._address = address.rstrip("/")
        self._client = ProviderClient(config, transport)
        self._discovery = Discovery(config, self._client)
        self._attempts = LoginAttempts()

    async def begin(self, target: str) -> tuple[str, str]:
        """Return the page of the provider where a person logs in, and a cookie for their browser."""
        endpoint = (await self._discovery.metadata()).authorization
        attempt = self._attempts.begin(target)
        question = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": self._address + CALLBACK,
            "scope": " ".join(dict.fromkeys(("openid", *self.config.scopes))),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(endpoint, question), attempt.cookie

    async def complete(self, cookie: str, answer: Mapping[str, str]) -> OidcLogin:
        """Return the person whom the provider sends back with an answer, or say why they may not log in."""
        # Checked first: without it, anybody could make this service ask the provider.
        attempt = self._attempts.resume(cookie, answer.get("state", ""))
        metadata = await self._discovery.metadata()
        stated = answer.get("iss", None if metadata.states_issuer else self.config.issuer)
        if stated != self.config.issuer:
            raise NotAllowedError(f"the answer is of another provider, {reprlib.repr(stated)}; log in again", 401)
        if "error" in answer:
            said = reprlib.repr(answer.get("error_description", answer["error"]))
            raise NotAllowedError(f"the provider refuses the login: {said}", 401)
        tokens = await self._redeem(metadata, answer.get("code", ""), attempt)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise self._client.failure("its answer has no ID token")
        claims = dict(await self._verified(id_token, attempt.nonce))
        claims |= await self._further_claims(metadata, claims, tokens.get("access_token"))
        return OidcLogin(person_of(claims, self.config), str(claims["sub"]), id_token, attempt.target)

    async def logout_address(self, id_token: str) -> str | None:
        """Return the page where a person logs out of the provider; None if it offers none."""
        endpoint = (await self._discovery.metadata()).end_session
        if endpoint is None:
            return None
        question = {
            "id_token_hint": id_token,
            "client_id": self.config.client_id,
            "post_logout_redirect_uri": f"{self._address}/login",
        }
        return _with_query(endpoint, question)

    async def _redeem(self, metadata: ProviderMetadata, code: str, attempt: LoginAttempt) -> Mapping[str, object]:
        """Return the tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._address + CALLBACK,
            "code_verifier": attempt.verifier,
        }
        secret = self.config.client_secret
        if secret is not None and not metadata.posts_secret:
            # Both are encoded as in a form before they are joined (RFC 6749, 2.3.1).
            pair = quote_plus(self.config.client_id), quote_plus(secret.read())
            return await self._client.fetch("POST", metadata.token, data=form, auth=pair)
        form["client_id"] = self.config.client_id
        if secret is not None:
            form["client_secret"] = secret.read()
        return await self._client.fetch("POST", metadata.token, data=form)

    async def _verified(self, id_token: str, nonce: str) -> Mapping[str, object]:
        """Return the claims of an ID token if it is genuine, fresh, and for this login."""
        try:
            try:
                token = jwt.decode(id_token, await self._discovery.keys(), algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                # The provider may have changed its keys.
                renewed: KeySet = await self._discovery.keys(renewed=True)
                token = jwt.decode(id_token, renewed, algorithms=ALGORITHMS)
            checks = jwt.JWTClaimsRegistry(
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self.config.issuer},
                aud={"essential": True, "value": self.config.client_id},
                nonce={"essential": True, "value": nonce},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
            )
            checks.validate(token.claims)
        except (JoseError, ValueError) as error:
            raise NotAllowedError(f"the ID token of the provider is not valid ({error}); log in again", 401) from error
        if token.claims.get("azp", self.config.client_id) != self.config.client_id:
            raise NotAllowedError("the ID token of the provider was issued to another client; log in again", 401)
        return token.claims

    async def _further_claims(
        self, metadata: ProviderMetadata, claims: Mapping[str, object], access_token: object
    ) -> Mapping[str, object]:
        """Return what only the userinfo endpoint states, if a claim that matters is not in the ID token."""
        needed = (self.config.name_claim, self.config.groups_claim)
        missing = any(find_claim(claims, name) is None for name in needed)
        if not missing or metadata.userinfo is None or not isinstance(access_token, str):
            return {}
        found = await self._client.fetch("GET", metadata.userinfo, headers={"Authorization": f"Bearer {access_token}"})
        if found.get("sub") != claims["sub"]:
            raise NotAllowedError("the provider answers about another person; log in again", 401)
        return {name: value for name, value in found.items() if name not in claims}


def _with_query(address: str, question: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(question)}"
