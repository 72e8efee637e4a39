"""What can be checked of the container without an engine that builds and runs it."""

from __future__ import annotations

import json
import re
import shlex
import stat
from pathlib import Path

import yaml
from typer.main import get_command

from cgsa.cli import app
from cgsa.service.config import ServiceConfig
from tests.deploy.programs import DEPLOY, program, run
from tests.test_repository import PROJECT

ROOT, DOCKER = DEPLOY.parent, DEPLOY / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
INSTRUCTIONS = [
    (words[0], words[1])
    for line in (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if (words := line.split(maxsplit=1)) and not line.startswith("#")
]


def of_kind(kind: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == kind]


def test_hadolint_finds_nothing() -> None:
    assert run(program("hadolint"), DOCKER / "Dockerfile") == ""


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*", "no data, key or history of a working copy gets into an image"
    for rest in of_kind("COPY"):
        if rest.startswith("--from=build"):
            continue
        *sources, _ = rest.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored, source


def test_the_image_installs_extras_that_exist() -> None:
    (install,) = (rest.removeprefix("EXTRAS=") for rest in of_kind("ARG") if rest.startswith("EXTRAS="))
    assert "/src[${EXTRAS}]" in " ".join(of_kind("RUN"))
    assert set(install.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    assert PROJECT["project"]["readme"] == "README.md", "the build needs it"


def test_the_image_starts_a_command_that_exists_as_a_user_without_rights() -> None:
    entry, command = json.loads(of_kind("ENTRYPOINT")[0]), json.loads(of_kind("CMD")[0])
    assert Path(entry[0]).name in PROJECT["project"]["scripts"]
    assert command[0] in getattr(get_command(app), "commands")  # noqa: B009 - a group has them, its base class does not
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", of_kind("USER")[-1])
    assert of_kind("STOPSIGNAL") == ["SIGTERM"]


def test_the_health_check_is_a_program_that_asks_the_service() -> None:
    (check,) = of_kind("HEALTHCHECK")
    python, option, code = json.loads(check.partition("CMD ")[2])
    assert (python, option) == ("/opt/cgsa/bin/python", "-c")
    compile(code, "health check", "exec")
    assert f"http://127.0.0.1:{ServiceConfig().port}/health" in code
    assert of_kind("EXPOSE") == [str(ServiceConfig().port)]


def test_compose_accepts_its_file() -> None:
    said = yaml.safe_load(run(program("docker-compose"), "-f", DOCKER / "compose.yaml", "config"))
    assert said["services"]["caddy"]["profiles"] == ["tls"]
    assert said["services"]["cgsa"]["build"]["context"] == str(ROOT)


def test_the_container_may_do_little() -> None:
    service = COMPOSE["services"]["cgsa"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["logging"]["options"]["max-size"], "nothing else bounds its log"


def test_compose_mounts_files_that_are_shipped_or_named_on_the_page() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    mounts = [volume.split(":")[0] for one in COMPOSE["services"].values() for volume in one["volumes"]]
    mounts += [one["file"] for one in COMPOSE["secrets"].values()]
    for name in (mount.removeprefix("./") for mount in mounts if mount.startswith("./")):
        assert (DOCKER / name).exists() or name in page, name


def test_the_configuration_in_the_container_fits_compose() -> None:
    config = ServiceConfig.load(DOCKER / "plant.toml")
    compose = COMPOSE["services"]
    assert config.folder == compose["cgsa"]["volumes"][0].split(":")[1] + "/plant"
    assert config.proxies == (compose["caddy"]["networks"]["inside"]["ipv4_address"],)
    (sink,) = config.sinks
    assert sink["password"] == {"file": f"/run/secrets/{compose['cgsa']['secrets'][0]}"}
    assert config.host == "0.0.0.0"  # noqa: S104 - inside the container


def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    text = (DOCKER / "Caddyfile").read_text(encoding="utf-8")
    assert f"reverse_proxy cgsa:{ServiceConfig().port}" in text
    caddy = program("caddy")
    run(caddy, "validate", "--config", DOCKER / "Caddyfile", "--adapter", "caddyfile", cwd=tmp_path)
    assert run(caddy, "fmt", DOCKER / "Caddyfile") == text


def test_nothing_that_is_shipped_can_be_executed_by_mistake() -> None:
    for path in DEPLOY.rglob("*"):
        assert path.is_dir() or not path.stat().st_mode & stat.S_IXUSR, path
    assert shlex.split(of_kind("WORKDIR")[0]) == ["/var/lib/cgsa"]
