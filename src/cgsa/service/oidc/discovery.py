"""What a provider publishes about itself: its endpoints and its keys (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from cgsa.service.errors import RefusedError
from cgsa.service.oidc.config import OidcConfig, is_safe_address

PATH = "/.well-known/openid-configuration"
KEPT_SECONDS = 3600.0
"""How long the discovery document and the keys are used before they are fetched again."""
RETRY_SECONDS = 10.0
"""Shortest time between two attempts to fetch them, so that nobody makes this service flood the provider."""
ANSWER_SECONDS = 10.0
"""Time for an answer of the provider."""
MAX_BYTES = 2**20
"""Size of an answer."""


@dataclass(frozen=True)
class ProviderMetadata:
    """The endpoints of a provider."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    end_session: str | None
    """Where to log out of the provider; None if it offers none."""
    posts_secret: bool
    """Whether the token endpoint takes the secret in the body only."""
    states_issuer: bool
    """Whether its answers to the browser state the issuer (RFC 9207)."""


class ProviderClient:
    """Fetches JSON from a provider."""

    def __init__(self, config: OidcConfig, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._issuer, self._transport = config.issuer, transport
        # Once, since loading certificates takes longer than most requests.
        self._certificates = ssl.create_default_context(cafile=config.ca)

    async def fetch(self, method: str, address: str, **request: Any) -> Mapping[str, Any]:
        """Return the answer to a request, or say that the provider cannot be used at present."""
        try:
            async with (
                httpx.AsyncClient(
                    verify=self._certificates,
                    timeout=ANSWER_SECONDS,
                    transport=self._transport,
                    headers={"Accept": "application/json"},
                ) as client,
                client.stream(method, address, **request) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise self.failure(f"{address} answers with more than {MAX_BYTES} bytes")
        except httpx.HTTPError as error:
            raise self.failure(f"{address}: {str(error) or type(error).__name__}") from error
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise self.failure(f"{address} answers {answer.status_code}{_reason(found)}")
        return found

    def failure(self, what: str) -> RefusedError:
        """Return the error that the provider cannot be used at present."""
        return RefusedError(
            503, f"the login with {self._issuer} does not work at present: {what}", retry_after=RETRY_SECONDS
        )


class Discovery:
    """The endpoints and keys of a provider, fetched when they are needed and kept for a while."""

    def __init__(self, config: OidcConfig, client: ProviderClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._client, self._clock = config.issuer, client, clock
        self._metadata: ProviderMetadata | None = None
        self._keys: KeySet | None = None
        self._fetched = self._keys_fetched = -KEPT_SECONDS
        self._failed: tuple[float, RefusedError] | None = None

    async def metadata(self) -> ProviderMetadata:
        """Return the endpoints."""
        if self._metadata is None or self._clock() - self._fetched > KEPT_SECONDS:
            if self._failed is not None and self._clock() - self._failed[0] < RETRY_SECONDS:
                raise self._failed[1]
            try:
                document = await self._client.fetch("GET", self._issuer.rstrip("/") + PATH)
                self._metadata = self._checked(document)
            except RefusedError as error:
                self._failed = self._clock(), error
                raise
            self._fetched = self._clock()
        return self._metadata

    async def keys(self, *, renewed: bool = False) -> KeySet:
        """Return the keys that the provider signs with; ``renewed`` asks for those of now, since one is unknown."""
        age = self._clock() - self._keys_fetched
        if self._keys is None or age > KEPT_SECONDS or (renewed and age > RETRY_SECONDS):
            published = await self._client.fetch("GET", (await self.metadata()).keys)
            try:
                self._keys = KeySet.import_key_set(cast("Any", published))
            except (JoseError, ValueError, KeyError, TypeError) as error:
                raise self._client.failure(f"its keys cannot be read ({error})") from error
            self._keys_fetched = self._clock()
        return self._keys

    def _checked(self, document: Mapping[str, object]) -> ProviderMetadata:
        """Return the endpoints of a discovery document, or say what is wrong with it."""
        stated = document.get("issuer")
        if stated != self._issuer:
            raise self._client.failure(f"it calls itself {stated!r}; expected exactly {self._issuer!r} (oidc.issuer)")

        def address(name: str) -> str | None:
            found = document.get(name)
            if found is not None and not (isinstance(found, str) and is_safe_address(found.partition("?")[0])):
                raise self._client.failure(f"its {name} is {found!r}; expected an https address")
            return found

        def required(name: str) -> str:
            found = address(name)
            if found is None:
                raise self._client.failure(f"its discovery document has no {name}")
            return found

        methods = document.get("token_endpoint_auth_methods_supported")
        basic = not isinstance(methods, list) or "client_secret_basic" in methods
        return ProviderMetadata(
            required("authorization_endpoint"),
            required("token_endpoint"),
            required("jwks_uri"),
            address("userinfo_endpoint"),
            address("end_session_endpoint"),
            posts_secret=not basic,
            states_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )


def _reason(answer: object) -> str:
    """Return the reason in an error of OAuth."""
    if not isinstance(answer, dict):
        return ""
    said = [str(answer[key])[:200] for key in ("error", "error_description") if key in answer]
    return f" ({': '.join(said)})" if said else ""
