"""Results of streams, made up."""

from __future__ import annotations

from cgsa.evaluation.results import Evaluation, StreamResult
from cgsa.metrics.reliability import Reliability


def stream(
    truth: str,
    point: str = "speed 600 rpm",
    *,
    right: int = 9,
    wrong: int = 1,
    trained: bool = False,
    delay: float | None = None,
    false_alarms: int = 0,
) -> StreamResult:
    label = int(truth != "healthy")
    windows = (wrong, right) if label else (right, wrong)
    return StreamResult(
        recording=f"recordings/{truth}_{point}.parquet",
        before=None if label == 0 else "recordings/healthy.parquet",
        point=point,
        truth=truth,
        label=label,
        trained=trained,
        windows=windows,
        verdicts=(*windows, 0),
        reliability=Reliability((0, right + wrong), (0.0, 0.8 * (right + wrong)), (0, right)),
        seconds=1800.0,
        alarm=None if delay is None else truth,
        delay=delay,
        named_delay=delay,
        false_alarms=false_alarms,
    )


def evaluation(*streams: StreamResult, left_out: bool = False) -> Evaluation:
    return Evaluation(
        "model", "machine", "commissioning", ("healthy", "worn"), ("healthy", "worn", "unknown"), streams, left_out
    )
