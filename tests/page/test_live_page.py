"""The page of a study that still runs, behind a server with a strict policy, which tells it of new trials."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from a3gnn.page.html import MEDIA_TYPES, static_file, study_html
from a3gnn.page.views import study_views

POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:"


class Server(BaseHTTPRequestHandler):
    """Serves the study in `folder`, and sends the event in `news` once that is set."""

    folder: ClassVar[Path]
    news: ClassVar[threading.Event]

    def do_GET(self) -> None:
        name = self.path.removeprefix("/static/")
        if self.path == "/studies/7":
            self.answer("text/html; charset=utf-8", study_html(study_views(self.folder), live="/studies/7"))
        elif self.path == "/studies/7/views":
            self.answer("application/json", json.dumps(study_views(self.folder)))
        elif self.path == "/studies/7/events":
            self.news.wait(20)
            self.answer(
                "text/event-stream",
                'event: trial\ndata: {"trial": 19}\n\nevent: status\ndata: {"status": "finished"}\n\n',
            )
        elif name in MEDIA_TYPES:
            self.answer(MEDIA_TYPES[name], static_file(name))
        else:
            self.answer("image/x-icon", "")

    def answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-security-policy", POLICY)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: Any) -> None:
        """Says nothing."""


@pytest.fixture
def server(running: Path) -> Iterator[ThreadingHTTPServer]:
    Server.folder, Server.news = running, threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as started:
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield started
        Server.news.set()
        started.shutdown()


def test_it_follows_the_study(browser, server, finished) -> None:
    context, complaints = browser.new_context(), []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"http://127.0.0.1:{server.server_port}/studies/7")
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#trial-table tbody tr").count() == 12
    page.select_option("#trial-kind", "feasible")
    Server.folder = finished
    server.RequestHandlerClass.news.set()
    page.locator("#status", has_text=re.compile("^finished")).wait_for()
    kept = sum(bool(row["feasible"]) for row in study_views(finished)["rows"] if not row["failure"])
    assert page.locator("#trial-table tbody tr").count() == kept  # the filter stays
    assert page.locator("#pick-words").inner_text().count("the tune's own choice") == 1
    context.close()
    assert not complaints
