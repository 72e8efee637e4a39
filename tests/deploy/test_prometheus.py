"""Alert rules and dashboard: valid, tested, and about metrics that the service really exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cgsa.service.links.link import Link, LinkStatus
from cgsa.service.metrics import create_registry
from tests.deploy.programs import DEPLOY, program, run
from tests.service.running_service import RunningService, running_service

RULES, DASHBOARD = DEPLOY / "prometheus" / "cgsa.rules.yml", DEPLOY / "grafana" / "cgsa.json"
MADE_BY_PROMETHEUS = {"up"}
OPTIONAL = {"cgsa_running", "cgsa_run_seconds_total", "cgsa_next_measurement_seconds", "cgsa_retrying"}
"""Exported only of models that know standstill, of intermittent machines, and while something fails."""
VARIABLES = {"$machine": ".*", "$quantity": "rms", "$job": "cgsa", "$__rate_interval": "5m"}


class _Stub(Link):
    async def connect(self) -> None:
        raise AssertionError("not called")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The names of all samples of a running service, with the labels of each."""
    with running_service(tmp_path_factory.mktemp("service")) as service:
        service.feed(40)
        found: dict[str, set[str]] = {}
        with service.client("viewer") as client:
            text = client.get("/metrics").text
        for sample in (one for family in text_string_to_metric_families(text) for one in family.samples):
            found.setdefault(sample.name, set()).update(sample.labels)
        for family in _registry(service).collect():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        yield found


def _registry(service: RunningService) -> Any:
    links = [_Stub("hall", kind, ()) for kind in ("mqtt", "webhook")]
    for link in links:
        link.status = LinkStatus("hall", "mqtt", "up", 0.0, counts={"sent": 1})
    return create_registry(service.app.state.context, links[:1], links[1:])


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def queries() -> dict[str, str]:
    """The queries of the dashboard by what shows them, with a value for each variable."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }
    found |= {one["name"]: one["expr"] for one in board["annotations"]["list"]}
    return {name: re.sub(r"\$\w+", lambda variable: VARIABLES[variable[0]], query) for name, query in found.items()}


def names_and_labels(query: str) -> list[tuple[str, set[str]]]:
    """The metrics of a query, each with the labels that select its samples."""
    bare = re.sub(r'"[^"]*"', '""', query)
    found = re.findall(r"\b(cgsa_\w+|process_\w+|up)\b(?:\{([^}]*)\})?", bare)
    return [(name, set(re.findall(r"(\w+)\s*[=!]~?", labels))) for name, labels in found]


@pytest.mark.parametrize(("name", "query"), [*alerts().items(), *queries().items()], ids=lambda value: value[:30])
def test_queries_use_what_the_service_exports(name: str, query: str, exported: dict[str, set[str]]) -> None:
    used = names_and_labels(query)
    assert used, f"{name}: no metric in {query}"
    for metric, labels in used:
        assert metric in exported.keys() | MADE_BY_PROMETHEUS | OPTIONAL, f"{name}: {metric}"
        # Prometheus adds these two.
        assert labels - {"job", "instance"} <= exported.get(metric, labels | {"job"}), f"{name}: {metric} {labels}"


def test_optional_metrics_exist_in_the_code() -> None:
    text = (DEPLOY.parent / "src" / "cgsa" / "service" / "metrics.py").read_text(encoding="utf-8")
    assert all(name.removesuffix("_total") in text for name in OPTIONAL)


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool = program("promtool", "prometheus")
    folder = RULES.parent
    assert f"SUCCESS: {len(alerts())} rules found" in run(promtool, "check", "rules", RULES)
    assert "SUCCESS" in run(promtool, "test", "rules", "cgsa.test.yml", cwd=folder)
    run(promtool, "check", "config", "--syntax-only", folder / "prometheus.yml")


def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries().values())]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    said = run(program("promtool", "prometheus"), "check", "rules", path)
    assert f"SUCCESS: {len(rules)} rules found" in said


def test_every_alert_is_tested() -> None:
    text = (RULES.parent / "cgsa.test.yml").read_text(encoding="utf-8")
    assert [name for name in alerts() if f"alertname: {name}\n" not in text] == []


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
