from __future__ import annotations

import json
from dataclasses import asdict, astuple, replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.events import (
    AlarmChange,
    ChannelLevels,
    Comment,
    Label,
    LevelReport,
    LevelTrend,
    LimitedLevel,
    Note,
    Operation,
)
from cgsa.live.alarms import AlarmConfig, AlarmManager
from cgsa.live.store import (
    AuditEntry,
    CaseFilter,
    PostgresAddress,
    RowSelection,
    Snippet,
    Store,
    StoredCase,
    StoredDiagnosis,
    StoredToken,
)
from cgsa.live.store.mapping import TABLES, diagnosis_statement
from tests.live.store.examples import OLDEST, all_rows, columns, example_events, stored_diagnosis, write_example_events


def test_what_was_written_is_read_back(store: Store) -> None:
    write_example_events(store)
    events = [event for *_, event in example_events()]
    with store.read() as view:
        assert view.diagnoses(pick=OLDEST).rows == tuple(stored_diagnosis(batch) for batch in range(5))
        assert view.changes(pick=OLDEST).rows == tuple(e for e in events if isinstance(e, AlarmChange))
        assert view.comments().rows == tuple(e for e in events if isinstance(e, Comment))
        assert view.labels(pick=OLDEST).rows == tuple(e for e in events if isinstance(e, Label))
        assert view.notes().rows == tuple(e for e in events if isinstance(e, Note))
        last = {e.case.number: e.case for e in events if isinstance(e, AlarmChange)}
        assert view.cases(pick=OLDEST).rows == tuple(StoredCase("pump", case) for case in last.values())
        assert [one.case.number for one in view.cases(which=CaseFilter(only_open=True)).rows] == [2]
        (snippet,) = view.snippets(case=1).rows
    wanted = next(event for event in events if isinstance(event, Snippet))
    assert (snippet.channels, snippet.sample_rate, snippet.time, snippet.case) == (("x", "y"), 12.5, 1.0, 1)
    np.testing.assert_array_equal(snippet.samples, wanted.samples)
    assert (store.problem, store.lost, store.notes) == (None, 0, ())


def test_a_replay_changes_nothing(place: Path | PostgresAddress) -> None:
    with Store(place) as store:
        write_example_events(store)
    before = all_rows(place)
    with Store(place) as store:
        write_example_events(store)
        for position, index, event in example_events()[:4]:
            store.add(position, index, event)
    assert all_rows(place) == before
    assert len(before["alarm_changes"]) > 5


def test_reports_are_stored_as_the_values_of_their_fields() -> None:
    levels = LevelReport(
        (ChannelLevels("x", "g", 0.1, 0.4, None), ChannelLevels("y", "g", 0.2, None, 3.5)),
        (LimitedLevel("x", "rms", 0.1, "g", 2.5, None, "normal"),),
        (LevelTrend("y", "velocity", "mm/s", 0.5, 4.5, 86_400.0, "rises"),),
        (10.0, 1000.0),
        "automatic limits follow",
    )
    operation = Operation("running", None, 12.5)
    diagnosis = replace(stored_diagnosis(0).diagnosis, levels=levels, operation=operation)
    sql, values = diagnosis_statement(StoredDiagnosis("pump", diagnosis, 0, None), 0.0)
    row = dict(zip(sql.partition("(")[2].partition(")")[0].replace('"', "").split(", "), values, strict=True))
    assert row["levels"] == json.dumps(astuple(levels), separators=(",", ":"))
    assert row["operation"] == json.dumps(asdict(operation), separators=(",", ":"))


NASTY = "x'); DROP TABLE audit; -- \" ] % %s _ ? \\ ☃"


def test_names_with_sql_in_them_are_names(store: Store) -> None:
    manager = AlarmManager(AlarmConfig(on_delay=0), NASTY)
    events = (
        *manager.observe(0, 1, NASTY),
        *manager.comment(1, NASTY, NASTY),
        *manager.label(1, NASTY, state=NASTY, begin=0, end=1),
        Note(NASTY, 1.0, NASTY, NASTY, {NASTY: NASTY}),
        Snippet(NASTY, 1.0, 1, 10.0, (NASTY,), np.ones((1, 3), np.float32)),
    )
    for index, event in enumerate(events):
        store.add(0, index, event)
    store.add_diagnosis(stored_diagnosis(0, NASTY))
    batch = columns(0.0) | {NASTY: np.ones(8, np.float32)}
    store.add_ledger(NASTY, 0, batch)
    store.add_audit(AuditEntry(1.0, NASTY, NASTY, NASTY, NASTY, NASTY, {NASTY: NASTY}))
    store.add_token(StoredToken(NASTY, NASTY, NASTY, 1.0))
    store.use_token(NASTY, 2.0)
    store.revoke_token(NASTY, 3.0)
    store.flush()
    with store.read() as view:
        found = (*view.changes(NASTY).rows, *view.comments(NASTY).rows, *view.labels(NASTY).rows)
        assert (*found, *view.notes(NASTY, topic=NASTY).rows) == events[:4]
        assert view.snippets(NASTY, case=1).rows[0].channels == (NASTY,)
        assert view.diagnoses(NASTY).rows == (stored_diagnosis(0, NASTY),)
        assert view.ledger(NASTY, 0, 9).keys() == batch.keys()
        assert view.audit(NASTY, who=NASTY).rows[0].details == {NASTY: NASTY}
        assert view.token(NASTY) == StoredToken(NASTY, NASTY, NASTY, 1.0, 2.0, 3.0)
        assert view.sizes().keys() == {*TABLES.values(), "ledger"}
        for pick in (RowSelection(machines=(NASTY.replace("?", "*"), "pump")), RowSelection(machines=("x')*☃*",))):
            assert view.diagnoses(pick=pick).rows == (stored_diagnosis(0, NASTY),)
        assert view.cases(which=CaseFilter(fault=NASTY)).rows == view.cases().rows != ()
        assert view.cases(which=CaseFilter(fault=f"{NASTY}x")).rows == ()
        for read in (view.diagnoses, view.notes, view.cases, view.changes, view.audit):
            assert read("' OR 1=1 --").rows == ()
    assert store.lost == 0


def test_a_snippet_of_the_wrong_shape_is_refused(store: Store) -> None:
    for shape in ((2, 3), (3,), (1, 1, 1)):
        with pytest.raises(DataError, match="samples for 1 channels"):
            store.add(0, 0, Snippet("pump", 0.0, 1, 1.0, ("x",), np.zeros(shape, np.float32)))
