"""The queue's table: what is listed, and who begins what."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="the extra [serve] is not installed")

import json

from a3gnn.service.database import open_service_database
from a3gnn.service.job_filter import JobFilter
from a3gnn.service.jobs import Jobs


def test_a_list_has_what_was_just_changed(tmp_path: Path) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    jobs, asked = Jobs(engine, "here", 10), JobFilter("study")
    for number in range(3):
        job = jobs.add("study", f"{number}", 1, {}, None)
        listed = json.loads(jobs.newest_json(asked))
        assert listed == [one.to_dict() for one in jobs.newest(asked)]
        assert listed[0]["name"] == f"{number}"
    jobs.update(job.id, summary={"line": "said", "trials": 3}, error={"detail": "why"})
    assert json.loads(jobs.newest_json(asked)) == [one.to_dict() for one in jobs.newest(asked)]
    assert jobs.claim(job)
    jobs.ask_to_stop(job.id, "study")
    assert json.loads(jobs.newest_json(asked))[0]["status"] == "stopping"
    assert jobs.stops_asked([job.id, job.id + 1]) == {job.id, job.id + 1}
    engine.dispose()


def test_a_job_is_begun_by_one_server_where_it_may_be(tmp_path: Path) -> None:
    place = str(tmp_path / "service.sqlite")
    engines = [open_service_database(place) for _ in range(3)]
    queues = [Jobs(engine, f"home {number}", 10) for number, engine in enumerate(engines)]
    anyones, mine = queues[0].add("study", "", 1, {}, None), queues[0].add("study", "", 1, {}, "home 1")
    assert [[job.id for job in queue.waiting()] for queue in queues] == [
        [anyones.id],
        [anyones.id, mine.id],
        [anyones.id],
    ]
    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(lambda queue: queue.claim(anyones), queues)) == 1
    home = queues[0].get(anyones.id).home
    seen = [[job.id for job in queue.waiting() if job.status == "running"] for queue in queues]
    assert seen == [[anyones.id] if f"home {number}" == home else [] for number in range(3)]
    for engine in engines:
        engine.dispose()
