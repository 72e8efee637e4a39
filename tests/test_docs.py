"""The documents speak of the code as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from tools import draw_method, write_cli_reference, write_settings_reference
from tools.check_names import names_of, symbols
from tools.draw_architecture import CONTENTS, PICTURES, layers

import cgsa
from cgsa.bench.plan import Plan, builtin_plans
from cgsa.config import parse_assignments
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.scenario import Scenario, builtin_scenarios
from cgsa.nn.frontends import FRONTENDS
from cgsa.offline import OBJECTIVES
from cgsa.online import METHODS
from cgsa.profile import Profile, builtin_profiles
from tests.machines import SCENARIO, SPEC, ToyLibrary, bundle

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED_PAGES = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "examples/README.md"))]
LINKED_PAGES += sorted((ROOT / "benchmarks").glob("*.md"))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)


def run_code(code: str, names: dict[str, object]) -> None:
    exec(code, names)  # noqa: S102 - of our own documents


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_documents_uses_names_that_exist(page: Path) -> None:
    for code in blocks(page, "python"):
        compile(code, str(page), "exec")
        for name in re.findall(r"\bcgsa\.([A-Za-z_]+)\b(?=[.(])", code):
            assert hasattr(cgsa, name) or find_spec(f"cgsa.{name}"), f"{page.name}: cgsa.{name}"


def test_python_in_the_documents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a toy machine instead of the simulated gearbox."""
    monkeypatch.chdir(tmp_path)
    bundle().save(tmp_path / "runs" / "model")
    recording = ToyLibrary().get("wear", "low", severity="H", specimen=1)
    write_parquet(recording, tmp_path / "pump.parquet")
    signal = cgsa.SignalDiagnoser(bundle(), cgsa.DiagnosisConfig("cgsa"))
    toy = {
        "window": {"length": SPEC.length, "step": SPEC.step},
        "train": {"epochs": 1, "step": 8},
        "network": {"hidden": [16, 8], "tap": 8},
    }
    training, diagnosis = blocks(ROOT / "docs" / "quickstart.md", "python")
    names: dict[str, object] = {"SCENARIO": SCENARIO, "PROFILE": Profile.load("quick", toy), "LIBRARY": ToyLibrary()}
    for gearbox, replacement in {
        'cgsa.Scenario.load("gearbox")': "SCENARIO",
        'cgsa.Profile.load("quick")': "PROFILE",
        'cgsa.RigLibrary("gearbox", specimens=2)': "LIBRARY",
        "gear_wear": "wear",
        "runs/model": "runs/other",
    }.items():
        assert gearbox in training
        training = training.replace(gearbox, replacement)
    run_code(training, names)
    (left_out,) = blocks(ROOT / "docs" / "scenarios.md", "python")
    for bearings, replacement in {
        'cgsa.Scenario.load("kat_units")': "SCENARIO",
        'cgsa.Profile.load("robust")': "PROFILE",
        'cgsa.open_library("recordings/kat_units", scenario, train_on=[1, 2])': "LIBRARY",
        "outer": "wear",
    }.items():
        assert bearings in left_out
        left_out = left_out.replace(bearings, replacement)
    run_code(left_out, names)
    run_code(diagnosis, {})
    run_code("\n".join(blocks(ROOT / "docs" / "extending.md", "python")), {})
    reading, writing = blocks(ROOT / "docs" / "ledger.md", "python")
    names = {"signal": signal, "recording": recording}
    run_code(f"{writing}\n\ndiagnose_with_ledger(signal, [recording])", names)
    run_code(reading.replace("runs/ledger", "runs/mine"), {})


@pytest.mark.parametrize("writer", [write_cli_reference, write_settings_reference], ids=lambda one: one.__name__)
def test_the_references_are_those_of_the_code(writer: ModuleType) -> None:
    assert writer.PAGE.read_text() == writer.page(), f"run python -m {writer.__name__}"


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A warning is a page that no other leads to, a link that leads nowhere, or a name that does not exist."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-c",
        "docs",
        ".",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "docs" / "index.html").exists()


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and the site name them."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one)).lower() for one in headings]
    return {one.strip().replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_between_the_documents_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(path), f"{page.name}: {target}#{anchor}"


def test_every_objective_method_front_end_and_profile_is_described() -> None:
    methods = (ROOT / "docs" / "methods.md").read_text()
    for name in (*OBJECTIVES, *METHODS, *FRONTENDS):
        assert f"`{name}`" in methods
    quickstart = (ROOT / "docs" / "quickstart.md").read_text()
    for name in builtin_profiles():
        assert f"`{name}`" in quickstart


def test_every_builtin_scenario_is_described() -> None:
    scenarios = (ROOT / "docs" / "scenarios.md").read_text()
    for name in builtin_scenarios():
        assert f"| `{name}` |" in scenarios


def test_every_builtin_plan_is_described_and_the_example_is_one(tmp_path: Path) -> None:
    page = ROOT / "docs" / "bench.md"
    for name in builtin_plans():
        assert re.search(rf"^\|.*`{name}`.*\|", page.read_text(), flags=re.MULTILINE), name
    whole, on_data_set = blocks(page, "toml")
    path = tmp_path / "documented.toml"
    path.write_text(whole)
    assert [entry.name for entry in Plan.load(path).entries][:2] == ["frozen", "CGSA queue=25"]
    path.write_text(on_data_set)
    assert Plan.load(path).profile_of("press-1").window.length == 256


def test_settings_in_the_quickstart_are_settings() -> None:
    words = re.findall(r"--set (\S+)", (ROOT / "docs" / "quickstart.md").read_text())
    assert words
    Profile.load("quick", parse_assignments(words))


def test_the_scenarios_in_the_documents_are_such(tmp_path: Path) -> None:
    text, several = blocks(ROOT / "docs" / "scenarios.md", "toml")
    path = tmp_path / "documented.toml"
    path.write_text(text)
    assert Scenario.load(path).classes == ("health", "gear_wear", "teeth_break")
    whole = builtin_scenarios()["limerick_motor_2d"].read_text()
    assert all(part.strip() in whole for part in several.split("\n\n"))


def test_public_names_are_there_and_listed_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in vars(cgsa)["__all__"]:
        assert getattr(cgsa, name) is not None
        if name[0].isalpha() and not name.isupper() and name != "CgsaError":
            assert f"   {name}\n" in reference
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(cgsa, "nonsense")  # noqa: B009 - a name that mypy knows not to exist


def test_every_layer_of_the_import_rules_is_on_the_architecture_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    described = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE))))
    packages = {package for layer in layers() for package in layer}
    assert packages <= described
    assert packages == set(CONTENTS)


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_architecture_are_up_to_date(name: str) -> None:
    drawn = (ROOT / "docs" / "images" / name).read_text()
    assert PICTURES[name]() == drawn, "run python -m tools.draw_architecture"
    assert f"(images/{name})" in (ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize("name", draw_method.PICTURES)
def test_the_pictures_of_the_method_are_up_to_date(name: str) -> None:
    drawn = (ROOT / "docs" / "images" / name).read_text()
    assert draw_method.PICTURES[name]() == drawn, "run python -m tools.draw_method"
    assert f"(images/{name})" in (ROOT / "docs" / "method.md").read_text()


def test_the_flowchart_names_what_the_code_has() -> None:
    files = (ROOT / "src").rglob("*.py")
    known = symbols([name for file in files for name in names_of(file, ROOT)])
    drawn = (ROOT / "docs" / "images" / "method-flowchart.svg").read_text()
    for symbol in draw_method.flowchart_symbols():
        assert symbol in known, symbol
        assert symbol in drawn, symbol
    assert "DiagnosisNet.guess" not in known


def test_the_picture_of_the_stream_has_the_windows_of_the_paper() -> None:
    assert draw_method.stream_size().startswith("7,937 + 3,937 + 3,937 + 7,937 windows of 1024 samples at step 16: 93 ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_the_documents_name_exist(page: Path) -> None:
    for module in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*\.py)`", page.read_text()):
        assert (ROOT / "src" / "cgsa" / module).exists() or (ROOT / module).exists(), module


def test_the_glossary_gives_a_term_one_meaning_and_covers_the_public_classes() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| ([^|`]+?) \| `", page, flags=re.MULTILINE)
    assert len(terms) > 100
    assert sorted(set(terms)) == sorted(terms)
    for name in vars(cgsa)["__all__"]:
        if name[0].isupper() and not name.isupper() and name not in {"CgsaError", "DiagnosisConfig"}:
            assert f"`{name}" in page, name
