"""From CSV files to an alarm, with the commands of the README.

python examples/own_csv_to_alarm.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pump import STATES, write_csv


def cgsa(folder: Path, *words: str) -> None:
    """Run a command as a user would type it."""
    print(f"\n$ cgsa {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "cgsa", *words], cwd=folder, check=True)  # noqa: S603 - our own command


def main(folder: Path) -> None:
    """Record the pump at three speeds, train, and watch it wear at a speed in between."""
    write_csv(folder / "data", STATES, (600, 900, 1200))
    write_csv(folder / "new", STATES, (1050,), seconds=10)
    cgsa(folder, "import", "data", "machine", "--names", "{class}_{speed}rpm")
    cgsa(folder, "train", "machine", "model")
    cgsa(folder, "watch", "model", "new/healthy_1050rpm.csv", "new/worn_1050rpm.csv", "--healthy-start")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
