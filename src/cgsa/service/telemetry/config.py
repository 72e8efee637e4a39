"""Settings of traces: the table ``[telemetry]`` of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from cgsa.errors import ConfigError


@dataclass(frozen=True)
class TelemetryConfig:
    """Where traces go, and how many of them."""

    endpoint: str
    """Address of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318."""
    name: str = "cgsa"
    """Name of this service in the traces (``service.name``)."""
    share: float = 1.0
    """Share of the requests and batches that are traced, chosen at random."""

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"telemetry.endpoint {self.endpoint!r}; expected an address such as http://127.0.0.1:4318"
            )
        if not 0 <= self.share <= 1:
            raise ConfigError(f"telemetry.share {self.share:g}; expected 0 to 1")
