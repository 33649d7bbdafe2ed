"""Docs, the start of a tune and a recommendation count the shipped measurements alike."""

from __future__ import annotations

import re

from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.setting import Setting
from a3gnn.tuning.beliefs.recommendation import CorpusCount
from tests.docs.pages import PAGES, ROOT


def test_pages_and_recommendations_count_the_same_measurements() -> None:
    rows = shipped_measurements()
    setting: Setting = rows[0].setting
    counted = CorpusCount.of(rows, setting)
    assert 0 < counted.measurements < len(rows)  # some trials failed, so that the two numbers could be mixed up
    told = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        told += [(page, int(found)) for found in re.findall(r"(\d{3,}) shipped measurements", text)]
        told += [(page, int(found)) for found in re.findall(r"shipped measurements of (\d+) graphs", text)]
    assert len(told) > 2
    assert {number for _, number in told} <= {counted.measurements, counted.graphs}, told
