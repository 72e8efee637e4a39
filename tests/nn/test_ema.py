from __future__ import annotations

import torch
from torch import nn

from cgsa.nn.ema import update_ema


def test_the_teacher_moves_a_fraction_towards_the_student() -> None:
    teacher, student = nn.Linear(2, 1), nn.Linear(2, 1)
    expected = 0.9 * teacher.weight.detach() + 0.1 * student.weight.detach()
    update_ema(teacher, student, 0.9)
    torch.testing.assert_close(teacher.weight.detach(), expected)
    assert teacher.weight.requires_grad
