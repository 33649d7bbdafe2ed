"""Logs that are read from any place, whole lines only."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from a3gnn.service.jobs.home import EventLog, JobFolder, Places
from a3gnn.service.studies.study_files import log_lines


@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=8), place=st.integers(0, 2000))
def test_a_reader_misses_nothing_after_its_place_and_reads_nothing_twice(
    tmp_path_factory, texts: list[str], place: int
) -> None:
    log = EventLog(tmp_path_factory.mktemp("log") / "events.jsonl")
    for text in texts:
        log.append("line", text=text)
    events = list(log.since(0))
    assert [event.data["text"] for event in events] == texts
    assert events[-1].id == log.size
    begins = [0, *(event.id for event in events)]
    for begin in (place, *begins):
        assert list(log.since(begin)) == [event for at, event in zip(begins, events, strict=False) if at >= begin]


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append("line", text="whole")
    with log.path.open("ab") as file:
        file.write(b'{"kind": "li')
    assert [event.data["text"] for event in log.since(0)] == ["whole"]
    log.append("status", status="finished")
    events = list(log.since(0))
    assert [event.kind for event in events] == ["line", "status"]
    assert [event.is_last for event in events] == [False, True]


def test_a_line_of_more_than_a_mebibyte_ends_no_reader(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    for text in ("before", "x" * (3 << 20), "after"):
        log.append("line", text=text)
    assert [len(event.data["text"]) for event in log.since(0)] == [6, 3 << 20, 5]
    assert [event.data["text"] for event in log.since(100)][-1:] == ["after"]


def test_there_may_be_no_log_yet(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    assert list(log.since(0)) == []
    assert log.size == 0


def test_a_page_reads_a_long_log_in_parts_and_from_the_start_once_it_is_replaced(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, Places(()))
    folder.events.append("status", status="running")
    for number in range(1200):
        folder.events.append("trial", trial=number)
        folder.events.append("line", text=f"{number} " + "x" * 3000)
    texts, place, more = [], 0, True
    while more:
        found = log_lines(folder, place)
        texts += [line["text"] for line in found["lines"]]
        place, more = found["next"], found["more"]
        assert len(found["lines"]) <= 500
        assert max(len(line["text"]) for line in found["lines"]) <= 2000
    assert [text.partition(" ")[0] for text in texts] == ["[running]", *map(str, range(1200))]
    assert place == folder.events.size
    assert log_lines(folder, place) == {"lines": [], "next": place, "more": False}
    folder.events.path.unlink()
    folder.events.append("line", text="new")
    assert [line["text"] for line in log_lines(folder, place)["lines"]] == ["new"]
