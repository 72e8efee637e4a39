from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from cgsa.errors import ConfigError
from cgsa.nn.known import DISTANCE, LEAST_RATIO, MAX_CHECKS, NEVER, QUESTION, UNLIKE, KnownCheck, KnownConfig
from cgsa.nn.trees import LEAST_SHARE

CONFIG = KnownConfig(("noise?", "swapped?"))
WINDOWS = torch.tensor(
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.0], [-9.0, 0.0, 0.0], [9.0, -9.0, 0.0]]
)


def check(config: KnownConfig = CONFIG, limits: Sequence[float] = (0.5, 0.5)) -> KnownCheck:
    """Two checks, along the first two of three features; half of a training window's distance is its usual one."""
    found = KnownCheck(config, inputs=3)
    found.weight.copy_(torch.eye(2, 3))
    found.limits.copy_(torch.tensor(limits))
    found.whitening.copy_(0.5 * torch.eye(2))
    found.imitations.copy_(0.5 * torch.eye(2))
    found.usual.fill_(0.5)
    return found


def with_trees(limit: float, noise_share: float) -> KnownCheck:
    """Trees that decide the second check: this share above 0.5 of the third feature, nothing below."""
    found = check(KnownConfig(CONFIG.questions, by_trees=(1,)), (0.5, limit))
    assert found.trees is not None
    found.trees.feature[:, 0] = 2
    found.trees.threshold[:, 0] = 0.5
    found.trees.child[:, 0] = torch.tensor([1, 2])
    found.trees.child[:, 1:3] = torch.tensor([[1, 1], [2, 2]])
    found.trees.share[:, 1] = torch.tensor([1.0, 0.0])
    found.trees.share[:, 2] = torch.tensor([1 - noise_share, noise_share])
    return found


def literal(one: KnownCheck, features: torch.Tensor) -> tuple[list[float], list[int]]:
    """The same, window by window and check by check."""
    distances, questions = [], []
    for row in features - one.centre:
        scores = [sum(float(a * b) for a, b in zip(row, weight, strict=True)) for weight in one.weight]
        white = [
            sum((scores[k] - float(one.mean[k])) * float(one.whitening[k, j]) for k in range(len(scores)))
            for j in range(len(scores))
        ]
        if one.trees is not None:
            genuine, *imitated = one.trees(row[None])[0].exp().tolist()
            for number, share in zip(one.by_trees, imitated, strict=True):
                scores[number] = share / (share + genuine)
        alone = [score / float(limit) for score, limit in zip(scores, one.limits, strict=True)]
        size = sum(value**2 for value in white) ** 0.5
        ratio = max(*alone, size / len(white) ** 0.5, LEAST_RATIO)
        best, cause = float("inf"), len(scores) + 1
        for k, beyond in enumerate(alone):
            gap = sum((white[j] - float(one.imitations[k, j])) ** 2 for j in range(len(white))) ** 0.5
            if beyond > 1 and gap < best and (gap < size or k in one.by_trees):
                best, cause = gap, k + 1
        distances.append(ratio / float(one.usual))
        questions.append(cause if ratio > 1 else 0)
    return distances, questions


@pytest.mark.parametrize("one", [check(), check(limits=(0.5, NEVER)), with_trees(0.6, 0.9)])
def test_distances_and_questions_are_those_of_the_slow_twin(one: KnownCheck) -> None:
    random = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    features = torch.cat([WINDOWS, random])
    distance, question = one([features[:, :2], features[:, 2:]])
    distances, questions = literal(one, features)
    torch.testing.assert_close(distance, torch.tensor(distances))
    assert question.tolist() == questions
    assert set(questions) == {0, 1, 2, 3} - ({2} if float(one.limits[1]) > 1 else set())


def test_each_imitation_raises_its_question_and_anything_else_is_unlike_everything() -> None:
    distance, question = check()([WINDOWS])
    assert [CONFIG.question(number) for number in question.tolist()] == [
        None,
        "noise?",
        "swapped?",
        None,
        UNLIKE,
        "noise?",
    ]
    # The limit is 1 / usual.
    assert (distance > 2).tolist() == [number > 0 for number in question.tolist()]


def test_a_check_that_never_decides_raises_no_alarm_by_itself() -> None:
    _, question = check(limits=(0.5, NEVER))([WINDOWS])
    assert question.tolist()[2] == 0


@pytest.mark.parametrize(("limit", "found"), [(0.6, [0, 2]), (0.95, [0, 0])])
def test_trees_decide_a_check_that_a_direction_cannot(limit: float, found: list[int]) -> None:
    windows = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    distance, question = with_trees(limit, 0.9)([windows])
    assert question.tolist() == found
    share = (1 - LEAST_SHARE) * 0.9 + LEAST_SHARE / 2
    assert float(distance[1]) == pytest.approx(2 * share / limit, rel=1e-5)


def test_evidence_has_the_distance_and_the_question() -> None:
    found = check().evidence([WINDOWS], torch.zeros(len(WINDOWS), 1, 4))
    assert found.keys() == {DISTANCE, QUESTION}
    assert torch.equal(found[QUESTION], check()([WINDOWS])[1])


@pytest.mark.parametrize("count", [0, MAX_CHECKS + 1])
def test_too_few_or_too_many_checks_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"{count} checks of the signal; expected 1 to {MAX_CHECKS}"):
        KnownConfig(("?",) * count)


@pytest.mark.parametrize("by_trees", [(2,), (-1,), (1, 0), (1, 1)])
def test_checks_of_trees_must_exist_in_order(by_trees: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="expected different numbers from 0 to 1, in order"):
        KnownConfig(CONFIG.questions, by_trees=by_trees)
