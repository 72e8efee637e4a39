"""Where a plan is carried out: one folder whose models and recordings several plans share."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cgsa.bench.plan import Plan, StreamRun, TrainingJob
from cgsa.config import as_table
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.files import replacing


@dataclass(frozen=True)
class Site:
    """A plan, its folder, and how to compute.

    ``models``, ``data`` and ``training`` in the folder belong to all plans that
    are carried out there; ``<plan>/`` holds what belongs to one.
    """

    plan: Plan
    folder: Path
    data: Path | None = None
    """Folder with recordings, one subfolder a scenario or all in one; none means simulate."""
    device: str = "cpu"
    threads: int = 1
    """Threads a job; another number gives other bits, so it is recorded."""
    tf32: bool = False
    """Let a GPU multiply matrices in TF32, which has fewer bits and is faster."""
    together: int = 1
    """Source models trained beside each other in one process. Their bits do not depend on it, unless they are stacked:
    plain and CAL models on a GPU."""

    @property
    def own(self) -> Path:
        """Where the plan's own results go."""
        return self.folder / self.plan.name

    def data_of(self, scenario: Scenario) -> Path:
        """Return the folder with the recordings of a scenario."""
        if self.data is None:
            return self.folder / "data" / scenario.name
        below = self.data / scenario.name
        return below if below.is_dir() else self.data

    def model(self, training: TrainingJob) -> Path:
        """Return where a source model goes."""
        return self.folder / "models" / training.key

    def checkpoint(self, training: TrainingJob) -> Path:
        """Return where an unfinished training keeps what it has."""
        return self.folder / "training" / training.key

    def record(self, meeting: StreamRun) -> Path:
        """Return where the record of a meeting goes."""
        return self.own / "records" / f"{meeting.key}.json"

    def check(self) -> None:
        """Refuse a folder that holds a run of other settings; more plans, scenarios and trials may come."""
        shared = {
            "seed": self.plan.seed,
            "specimens": self.plan.specimens if self.data is None else None,
            "device": self.device,
            "threads": self.threads,
            "tf32": self.tf32,
        }
        profiles = {
            " under ".join(filter(None, (f"profile of {Path(scenario).stem}", profile))): as_table(
                self.plan.profile_of(scenario, profile)
            )
            for scenario in self.plan.scenarios
            for profile in {entry.profile for entry in self.plan.entries}
        }
        own = asdict(self.plan)
        for free in ("trials", "scenarios", "settings"):
            del own[free]
        _agree(self.folder / "site.json", {**shared, **profiles})
        _agree(self.own / "plan.json", own)


def _agree(path: Path, settings: dict[str, object]) -> None:
    """Fail where the file says otherwise, and add to it what it does not say yet."""
    now = json.loads(json.dumps(settings))
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    different = sorted(key for key in now if key in before and before[key] != now[key])
    if different:
        raise ConfigError(f"{path.parent}: holds a run with another {', '.join(different)}; choose another folder")
    if now.keys() - before.keys():
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(json.dumps(before | now, indent=1), encoding="utf-8")
