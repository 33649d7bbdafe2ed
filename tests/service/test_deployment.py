"""What the page on deployment names: files of containers, health checks, and the log of requests."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from a3gnn.cli.serve import serve
from tests.docs.pages import ROOT
from tests.service.servers import serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

OPTIONS = {name for parameter in serve.params for name in parameter.opts}
FILES = ("Dockerfile", "compose.yaml", "docs/howto/deploy.md", "docs/howto/service.md")


@pytest.mark.parametrize("file", FILES)
def test_options_of_the_server_exist(file: str) -> None:
    lines = [line for line in (ROOT / file).read_text().splitlines() if "serve" in line.lower() or "--allow" in line]
    named = {option for line in lines for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", line)}
    others = {
        "--build",
        "--help",
        "--no-cache-dir",
        "--profile",
        "--server",
        "--dataset",
        "--budget",
        "--executor",
        "--machines",
        "--folder",
    }
    assert named - OPTIONS <= others


def test_a_backup_by_the_page_is_the_database_of_one_moment(tmp_path: Path) -> None:
    folder, backup = tmp_path / "runs" / "service", tmp_path / "backup" / "service"
    folder.mkdir(parents=True)
    backup.parent.mkdir()
    (folder / "studies").mkdir()
    page = (ROOT / "docs/howto/deploy.md").read_text()
    excluded = re.search(r"rsync -a --exclude '(\S+)' runs/service/ /backup/service/\nmv", page)
    assert excluded is not None
    with closing(sqlite3.connect(folder / "service.sqlite")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE rows (number INTEGER)")
        database.commit()
        with closing(sqlite3.connect(tmp_path / "backup.sqlite")) as copy:
            database.backup(copy)
        database.execute("INSERT INTO rows VALUES (1)")
        database.commit()  # stays in service.sqlite-wal
        shutil.copytree(folder, backup, ignore=shutil.ignore_patterns(excluded[1]))
    shutil.move(tmp_path / "backup.sqlite", backup / "service.sqlite")
    with closing(sqlite3.connect(backup / "service.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM rows").fetchone() == (0,)
    assert (backup / "studies").is_dir()


def test_the_composition_mounts_what_the_image_uses() -> None:
    composed = yaml.safe_load((ROOT / "compose.yaml").read_text())
    image = (ROOT / "Dockerfile").read_text()
    places = {
        volume.split(":")[-1 if volume.count(":") == 1 else -2] for volume in composed["services"]["a3gnn"]["volumes"]
    }
    assert places == {"/data", "/graphs"}
    assert all(place in image for place in places)
    secrets = {name for service in composed["services"].values() for name in service["secrets"]}
    assert secrets == set(composed["secrets"])
    assert "/run/secrets/a3gnn_token" in image


def test_the_image_copies_what_the_package_is_built_of() -> None:
    image = (ROOT / "Dockerfile").read_text()
    copied = {
        word
        for line in image.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    ignored = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == ignored
    assert all((ROOT / name).exists() for name in copied)


def test_each_request_has_a_name_and_a_line_without_its_query(tmp_path: Path) -> None:
    with serving(tmp_path, "--at-once", "0", "--access-log") as server:
        given = server.ask("GET", "/studies?name=private", headers={"X-Request-ID": "of-the-proxy:1"})
        forged = server.ask("GET", "/livez", headers={"X-Request-ID": "a b\tc"})
        lines = [server.process.stderr.readline() for _ in range(2)]
    assert given.headers["x-request-id"] == "of-the-proxy:1"
    assert re.fullmatch(r"[0-9a-f]{16}", forged.headers["x-request-id"])
    assert re.fullmatch(r"\S+ \S+ GET '/studies' 200 [\d.]+ ms 127\.0\.0\.1 of-the-proxy:1\n", lines[0])
    assert "private" not in "".join(lines)


def test_a_lost_database_is_no_reason_to_restart(tmp_path: Path) -> None:
    with serving(tmp_path, "--at-once", "0") as server:
        assert [server.ask("GET", path).status for path in ("/livez", "/readyz", "/healthz")] == [200, 200, 200]
        for file in tmp_path.glob("service.sqlite*"):
            file.write_bytes(b"no database" * 1000)
        assert [server.ask("GET", path).status for path in ("/livez", "/readyz", "/healthz")] == [200, 503, 503]
