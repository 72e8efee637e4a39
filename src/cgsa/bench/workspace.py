"""The folder in which plans run, with the plan and the compute settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cgsa.bench.plan import Plan, StreamRun, TrainingJob
from cgsa.config import as_table
from cgsa.data.dataset_file import is_data_set
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.files import replacing


@dataclass(frozen=True)
class PlanWorkspace:
    """A plan, its folder, and the compute settings.

    All plans that run in the folder share its subfolders ``models``, ``data`` and ``training``; ``<plan>/`` holds the
    results of one plan.
    """

    plan: Plan
    folder: Path
    data: Path | None = None
    """Folder with recordings, in one subfolder per scenario or all together, or a data set; None means simulate."""
    device: str = "cpu"
    threads: int = 1
    """Threads per job; it changes the bits of the results, so it is recorded."""
    tf32: bool = False
    """Let a GPU multiply matrices in TF32, which is faster and less precise."""
    trainings_at_once: int = 1
    """Source models trained in parallel in one process. Their bits do not depend on it, except for stacked models:
    plain and CAL models on a GPU."""

    skip_diverged: bool = False
    """Leave out the streams of a training that diverges, with a note of its error, instead of ending the plan."""

    @property
    def results(self) -> Path:
        """Folder of the plan's own results."""
        return self.folder / self.plan.name

    def recordings_of(self, scenario: Scenario) -> Path:
        """Return the folder with the recordings of a scenario."""
        if self.data is None:
            return self.folder / "data" / scenario.name
        subfolder = self.data / scenario.name
        return subfolder if subfolder.is_dir() and not is_data_set(self.data) else self.data

    def model_folder(self, job: TrainingJob) -> Path:
        """Return the folder of a source model."""
        return self.folder / "models" / job.key

    def checkpoint_folder(self, job: TrainingJob) -> Path:
        """Return the folder of the checkpoint of an unfinished training."""
        return self.folder / "training" / job.key

    def divergence_note(self, job: TrainingJob) -> Path:
        """Return the path of the note of a training that diverged."""
        return self.folder / "training" / f"{job.key}.diverged"

    def record_path(self, run: StreamRun) -> Path:
        """Return the path of the record of a stream run."""
        return self.results / "records" / f"{run.key}.json"

    def check_settings(self) -> None:
        """Refuse a folder with results of other settings; plans, scenarios and trials may be added."""
        shared = {
            "seed": self.plan.seed,
            "specimens": self.plan.specimens if self.data is None else None,
            "first_specimen": self.plan.first_specimen if self.data is None else None,
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
        scenarios = {
            f"scenario {Path(scenario).stem}": as_table(Scenario.load(scenario)) for scenario in self.plan.scenarios
        }
        extendable = ("trials", "scenarios", "settings")
        own = {name: value for name, value in asdict(self.plan).items() if name not in extendable}
        # Folders of older versions have no devices of entries.
        own["entries"] = [
            {name: value for name, value in one.items() if (name, value) != ("device", None)} for one in own["entries"]
        ]
        require_same_settings(self.folder / "site.json", {**shared, **profiles, **scenarios})
        require_same_settings(self.results / "plan.json", own)


def require_same_settings(path: Path, settings: dict[str, object]) -> None:
    """Raise an error if the file has other values for the settings, and add those it lacks."""
    now = json.loads(json.dumps(settings))
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    different = sorted(key for key in now if key in before and before[key] != now[key])
    if different:
        raise ConfigError(f"{path.parent}: contains a run with another {', '.join(different)}; choose another folder")
    if now.keys() - before.keys():
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(json.dumps(before | now, indent=1), encoding="utf-8")
