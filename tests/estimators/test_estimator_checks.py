"""The checks of scikit-learn for estimators: all of them apply, and none is expected to fail.

They hand over recordings of a few samples, so they train the small network for short recordings; the tests of the
classifier train the ensemble.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cgsa.estimators.classifier import CgsaClassifier

EXPECTED_FAILURES: dict[str, str] = {}
"""Reason by the name of a check."""


@parametrize_with_checks([CgsaClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES)  # type: ignore[untyped-decorator]
# scikit-learn warns that a check does not apply, such as one for its own array interface.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_checks_of_scikit_learn_pass(estimator: CgsaClassifier, check: Callable[[Any], None]) -> None:
    check(estimator)
