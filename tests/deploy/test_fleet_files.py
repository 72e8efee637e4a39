"""What can be checked of the files for fleets without an engine and without Kubernetes."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from cgsa.cli import app
from cgsa.fleet.config import FleetConfig
from tests.deploy.programs import DEPLOY, program, run

COMPOSE_FOLDER, KUBERNETES = DEPLOY / "fleet", DEPLOY / "kubernetes"
COMPOSE = yaml.safe_load((COMPOSE_FOLDER / "compose.yaml").read_text(encoding="utf-8"))
DOCUMENTS = [
    document
    for path in sorted(KUBERNETES.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
KUSTOMIZATION = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
CORE = [one for one in DOCUMENTS if not one["apiVersion"].startswith("ray.io")]
PAGE = (DEPLOY.parent / "docs" / "deployment.md").read_text(encoding="utf-8")
OPTIONS = {name for one in get_command(app).commands["fleet"].params for name in one.opts}  # type: ignore[attr-defined]


def validate(document: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        # The newest schemas do for those before them.
        warnings.simplefilter("ignore")
        kubernetes_validate.validate(document, "1.30", strict=True)


def pod_templates() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pods of all documents, also of those whose kinds have no schema here."""
    for document in DOCUMENTS:
        spec = document.get("spec", {})
        if document["kind"] == "RayCluster":
            for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
                yield "ray", group["template"]
        elif "template" in spec:
            yield document["metadata"]["name"], spec["template"]


PODS = [*pod_templates()]


def named(kind: str, name: str) -> dict[str, Any]:
    [found] = [one for one in DOCUMENTS if one["kind"] == kind and one["metadata"]["name"] == name]
    return dict(found)


@pytest.mark.parametrize("document", CORE, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_kubernetes_accepts_each_document(document: dict[str, Any]) -> None:
    validate(document)


@pytest.mark.parametrize("pod", PODS, ids=lambda one: one if isinstance(one, str) else one[0])
def test_pods_are_valid_and_confined(pod: tuple[str, dict[str, Any]]) -> None:
    """The namespace enforces the profile ``restricted``."""
    spec = pod[1]["spec"]
    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any", **pod[1]["metadata"]}, "spec": spec})
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    volumes = {one["name"] for one in spec["volumes"]}
    for container in spec["containers"]:
        confined = container["securityContext"]
        assert confined["allowPrivilegeEscalation"] is False
        assert confined["readOnlyRootFilesystem"] is True
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert {one["name"] for one in container["volumeMounts"]} <= volumes | {"log", "store"}


def test_a_wrong_field_is_found() -> None:
    broken = {**named("StatefulSet", "nats"), "spec": {"replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(broken)


def test_kustomize_has_all_files() -> None:
    shipped = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == shipped
    assert all((KUBERNETES / file).exists() for one in KUSTOMIZATION["configMapGenerator"] for file in one["files"])


def test_every_secret_and_volume_is_shipped_or_on_the_page() -> None:
    known = {one["name"] for one in KUSTOMIZATION["configMapGenerator"]}
    for _, template in PODS:
        for volume in template["spec"]["volumes"]:
            for kind, key in (("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")):
                if kind in volume:
                    name = volume[kind][key]
                    assert name in known or f"`{name}`" in PAGE, name


@pytest.mark.parametrize(
    "path", [KUBERNETES / "fleet.toml", COMPOSE_FOLDER / "fleet.toml"], ids=["kubernetes", "compose"]
)
def test_the_fleet_accepts_its_configuration(path: Path) -> None:
    config = FleetConfig.load(path)
    assert config.store is not None
    assert config.store.password is not None
    assert config.log.nats.password_file is not None


def test_the_configuration_in_kubernetes_fits_the_cluster() -> None:
    config, cluster = FleetConfig.load(KUBERNETES / "fleet.toml"), named("RayCluster", "cgsa")["spec"]
    [workers] = cluster["workerGroupSpecs"]
    [container] = workers["template"]["spec"]["containers"]
    assert config.shards == workers["replicas"] * int(container["resources"]["limits"]["cpu"])
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["authOptions"] == {"mode": "token"}
    assert config.log.replicas == named("StatefulSet", "nats")["spec"]["replicas"] == len(config.log.nats.servers)
    assert all(one.startswith("tls://") for one in config.log.nats.servers)
    assert config.store is not None
    assert config.store.address().tls
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert all(str(one.bundle).startswith("/etc/cgsa/models/") for one in config.machines)
    assert {"/etc/cgsa/secrets", "/etc/cgsa/tls", "/etc/cgsa/models", "/etc/cgsa/fleet.toml"} <= mounts


def test_commands_have_the_options_of_the_program() -> None:
    [gateway] = named("Deployment", "gateway")["spec"]["template"]["spec"]["containers"]
    entrypoint = shlex.split(named("RayJob", "fleet")["spec"]["entrypoint"])
    for words in (["cgsa", *gateway["args"]], entrypoint, ["cgsa", *COMPOSE["services"]["fleet"]["command"]]):
        assert words[:2] == ["cgsa", "fleet"]
        assert {word for word in words if word.startswith("--")} <= OPTIONS


def test_only_the_fleet_reaches_its_ports() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in DOCUMENTS if one["kind"] == "NetworkPolicy"}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    labels = [template["metadata"]["labels"]["app"] for _, template in PODS]
    for name, spec in policies.items():
        if name != "nobody":
            assert spec["podSelector"]["matchLabels"]["app"] in labels
    peers = [peer for rule in policies["ray"]["ingress"] for peer in rule["from"]]
    assert all("namespaceSelector" in one or one["podSelector"]["matchLabels"] == {"app": "cgsa-ray"} for one in peers)


def test_compose_accepts_its_file_and_publishes_pages_to_this_computer() -> None:
    said = yaml.safe_load(run(program("docker-compose"), "-f", COMPOSE_FOLDER / "compose.yaml", "config"))
    assert said["services"].keys() == {"fleet", "nats", "postgres"}
    for name, service in COMPOSE["services"].items():
        port = FleetConfig.load(COMPOSE_FOLDER / "fleet.toml").service.port
        assert service.get("ports", []) == ([f"127.0.0.1:{port}:{port}"] if name == "fleet" else [])
        assert service["cap_drop"] == ["ALL"]


def test_the_configuration_in_the_containers_fits_compose() -> None:
    config, services = FleetConfig.load(COMPOSE_FOLDER / "fleet.toml"), COMPOSE["services"]
    assert config.log.nats.servers == ("nats://nats:4222",)
    assert config.log.nats.password_file == f"/run/secrets/{services['fleet']['secrets'][0]}"
    assert config.store is not None
    assert config.store.url == "postgresql://{POSTGRES_USER}@postgres:5432/{POSTGRES_DB}".format(
        **services["postgres"]["environment"]
    )
    for one in COMPOSE["secrets"].values():
        assert one["file"].removeprefix("./") in PAGE


@pytest.mark.parametrize("folder", [COMPOSE_FOLDER, KUBERNETES], ids=["compose", "kubernetes"])
def test_nats_accepts_its_configuration(folder: Path, tmp_path: Path) -> None:
    """Without what version 2.9 does not know, and with files that are not shipped."""
    text = (folder / "nats.conf").read_text(encoding="utf-8")
    assert "sync_interval: always" in text
    text = re.sub(r"^ *(sync_interval|tls|include).*$", "", text, flags=re.MULTILINE)
    text = text.replace("/data", str(tmp_path / "data")).replace("$POD_NAME", "nats-0")
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    run(program("nats-server", "nats-server"), "--config", tmp_path / "nats.conf", "-t")
