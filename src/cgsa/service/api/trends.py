"""How a machine changed: trends, and what differs from its healthy signal now."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import Query

from cgsa.explain.spectra import DoubleArray
from cgsa.live.intake.block import MAX_TIME
from cgsa.service.api.parameters import MachineWorker
from cgsa.service.api.routing import Context, needs, role_router
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import CommandResult
from cgsa.service.trend_schemas import (
    ChangedBand,
    ChangedPeakInfo,
    ChannelTrend,
    ComparisonInfo,
    SpectrumInfo,
    TrendInfo,
)
from cgsa.service.trends.comparison import ComparedSpectrum, compare_with_healthy
from cgsa.service.trends.history import read_trends
from cgsa.service.trends.levels import band_names

BANDS = 10
"""Bands of an answer."""

router = role_router()


@router.get("/machines/{machine}/trends", tags=["machines"], **needs("viewer", 404, scope="path"))
def show_trends(
    worker: MachineWorker,
    context: Context,
    begin: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
    end: Annotated[float, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)],
) -> TrendInfo:
    """Return the health score, RMS, kurtosis and band levels of a period, by minutes up to a day and else by hours."""
    with context.plant.store.read() as snapshot:
        found = read_trends(snapshot, worker.machine, begin, end)
    bands = band_names(found.sample_rate, found.values.shape[2] - 2) if found.channels else []
    channels = [
        ChannelTrend(
            channel=name,
            rms=_numbers(found.values[:, place, 0]),
            kurtosis=_numbers(found.values[:, place, 1]),
            bands={band: _numbers(found.values[:, place, 2 + number]) for number, band in enumerate(bands)},
        )
        for place, name in enumerate(found.channels)
    ]
    return TrendInfo(
        machine=worker.machine,
        step=found.seconds,
        times=list(found.times),
        health=list(found.health),
        channels=channels,
    )


@router.get("/machines/{machine}/comparison", tags=["machines"], **needs("viewer", 404, 409, scope="path"))
def show_comparison(worker: MachineWorker, context: Context) -> ComparisonInfo:
    """Return the newest signal beside the healthy signal: what rose and by how much, and whose lines it has."""
    recent = worker.recent_recording()
    if recent is None:
        raise RefusedError(409, f"{worker.machine}: no signal has come since the start of the service")
    pieces = context.trends.healthy.pieces(worker.machine)
    found = compare_with_healthy(*recent, pieces, context.plant.explain_config(worker.machine))
    about = found.explanation
    return ComparisonInfo(
        machine=worker.machine,
        time=found.time,
        seconds=found.seconds,
        compared_with=found.compared_with,
        sentences=[] if about is None else about.sentences,
        peaks=[] if about is None else [ChangedPeakInfo.model_validate(one) for one in about.peaks],
        bands=[] if about is None else [ChangedBand.model_validate(one) for one in about.bands[:BANDS]],
        spectra=_spectra(found.channels, found.spectra),
        envelopes=_spectra(found.channels, found.envelopes),
        lines={part: list(lines) for part, lines in found.families.items()},
        notes=list(found.notes),
    )


@router.post(
    "/machines/{machine}/comparison/renew-healthy-signal", tags=["machines"], **needs("operator", 404, scope="path")
)
def renew_healthy_signal(worker: MachineWorker, context: Context) -> CommandResult:
    """Forget the healthy signal that spectra are compared with; it is taken anew while the machine is healthy."""
    context.trends.healthy.renew(worker.machine)
    return CommandResult(done=True)


def _spectra(channels: tuple[str, ...], curves: tuple[ComparedSpectrum, ...]) -> list[SpectrumInfo]:
    return [
        SpectrumInfo(
            channel=name,
            frequency=one.frequency.tolist(),
            now=one.now.tolist(),
            healthy=None if one.healthy is None else one.healthy.tolist(),
        )
        for name, one in zip(channels, curves, strict=False)
    ]


def _numbers(values: DoubleArray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
