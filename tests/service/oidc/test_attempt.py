from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.service.oidc.attempt import MAX_SECONDS, LoginAttempts
from cgsa.service.rights import NotAllowedError


@given(target=st.text(max_size=30), other=st.text(max_size=60))
def test_only_its_own_cookie_and_state_resume_an_attempt(target: str, other: str) -> None:
    attempts = LoginAttempts()
    begun = attempts.begin(target)
    assert attempts.resume(begun.cookie, begun.state) == begun
    assert len({begun.state, begun.nonce, begun.verifier, begun.challenge}) == 4
    for cookie, state in ((other, begun.state), (begun.cookie, other), (begun.cookie + "A", begun.state)):
        with pytest.raises(NotAllowedError, match="not begun here"):
            attempts.resume(cookie, state)
    with pytest.raises(NotAllowedError, match="not begun here"):
        LoginAttempts().resume(begun.cookie, begun.state)


def test_an_attempt_ends() -> None:
    now = 100.0
    attempts = LoginAttempts(lambda: now)
    begun = attempts.begin("/")
    now += MAX_SECONDS
    attempts.resume(begun.cookie, begun.state)
    now += 1
    with pytest.raises(NotAllowedError, match="took more than 10 minutes"):
        attempts.resume(begun.cookie, begun.state)


def test_the_verifier_is_as_long_as_the_standard_asks() -> None:
    assert 43 <= len(LoginAttempts().begin("/").verifier) <= 128
