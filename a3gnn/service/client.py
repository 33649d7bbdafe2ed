"""`Client`: the studies of a server, from Python."""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from a3gnn.errors import A3GNNError, GraphError, InfeasibleError, StoreError, UsageError
from a3gnn.notify import LOOK_S, listener
from a3gnn.report.front import Front
from a3gnn.service.http.problems import MEDIA_TYPE
from a3gnn.storage.atomic import replacing
from a3gnn.training.tuned import TunedConfig
from a3gnn.units import format_size, printable

if TYPE_CHECKING:
    from a3gnn.tuning.outcome.result import TuneResult

#: The address of a study, and of its page.
_STUDY_ADDRESS = re.compile(r"(?P<url>https?://.+?)/studies/(?P<number>[0-9]{1,10})(/page)?/?")
#: Bytes per read of a download.
_PIECE = 1 << 20
#: Files of a saved study. Without these it has not begun.
_NEEDED = ("request.json", "probes.jsonl")


class ServerAwayError(A3GNNError):
    """The server does not answer: it was not started, is being restarted, or can't be reached from here."""


class AbsentError(A3GNNError):
    """The server does not have the requested object, or does not have it yet."""


#: The error to raise for each kind of problem. Other kinds raise an `A3GNNError`.
_ERRORS: dict[str, type[A3GNNError]] = {
    "usage": UsageError,
    "request": UsageError,
    "graph": GraphError,
    "infeasible": InfeasibleError,
    "store": StoreError,
    "rows": StoreError,
    "not-found": AbsentError,
}


class HttpClient:
    """Sends each request over its own connection.

    Args:
        url: The server's address, such as http://127.0.0.1:8642.
        token: Sent with every request as a bearer token, unless None.
        timeout_s: Seconds within which the server must answer or send more data.

    Raises:
        UsageError: `url` is not the URL of a server.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # an invalid port, or half an IPv6 address
            known = False
        if not known:
            raise UsageError(f"a server's URL must be like http://127.0.0.1:8642, got {url!r}")
        self._parts, self._timeout_s = parts, timeout_s
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def json(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """Returns the JSON object that the server answers; an empty one if the answer is empty."""
        text = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        content = self.content(method, path, text, headers, **query)
        return dict(json.loads(content or b"{}"))

    def once(self, path: str, body: Any) -> dict[str, Any]:
        """Returns the JSON answer to a POST that makes something new, sent once more if the answer does not come."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16)}
        request = ("POST", path, json.dumps(body), headers)
        try:
            content = self.content(*request)
        except ServerAwayError:
            time.sleep(LOOK_S)
            content = self.content(*request)
        return dict(json.loads(content))

    def content(self, method: str, path: str, body: Any = None, headers: Any = None, **query: Any) -> bytes:
        """Returns the bytes of the answer; `body` may be text, bytes or an open file, which is streamed."""
        with self._opened(method, path, body, headers or {}, query) as response, self._awaited():
            return response.read()

    def upload(self, path: str, file: Path, **query: Any) -> dict[str, Any]:
        """Sends the content of `file`, and returns the JSON answer."""
        with file.open("rb") as opened:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
            return dict(json.loads(self.content("POST", path, opened, headers, **query)))

    def download(self, path: str, place: Path, most: int) -> None:
        """Writes the server's answer to the file `place`, whole or not at all.

        Raises:
            AbsentError: The server has nothing at `path`.
            A3GNNError: The answer has more than `most` bytes.
            OSError: The file can't be written, such as when the disk is full.
        """

        def read() -> bytes:
            with self._awaited():
                piece = response.read(_PIECE)
                if not piece and response.length:  # cut short: read() notices that, and read(amount) does not
                    raise http.client.IncompleteRead(piece, response.length)
                return piece

        with self._opened("GET", path, None, {}, {}) as response, replacing(place) as draft, draft.open("wb") as file:
            got = 0
            while piece := read():
                got += len(piece)
                if got > most:
                    raise A3GNNError(
                        f"the answer of {self._where} to {path} must have at most {format_size(most)}, got more; is it "
                        "an a3gnn server?"
                    )
                file.write(piece)

    def lines(self, path: str, last: int) -> Iterator[str]:
        """Yields the lines of an event stream, beginning after event `last`, until the stream ends."""
        with self._opened("GET", path, None, {"Last-Event-ID": str(last)}, {}) as response:
            while True:
                with self._awaited():
                    line = response.readline()
                if not line:
                    return
                yield line.decode().rstrip("\n")

    @contextmanager
    def _opened(
        self, method: str, path: str, body: Any, headers: Any, query: Any
    ) -> Iterator[http.client.HTTPResponse]:
        """Yields a successful response, to be read within `_awaited`, or raises the error of a refusal."""
        fields = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        target = f"{self._parts.path.rstrip('/')}{path}{'?' if fields else ''}{fields}"
        with closing(self._connection()) as connection:
            with self._awaited():
                with suppress(BrokenPipeError, ConnectionResetError):  # it may have refused the body already
                    connection.request(method, target, body, {**self._headers, **headers})
                response = connection.getresponse()
            with response:
                if response.status >= 400:
                    raise self._refusal(response)
                yield response

    @contextmanager
    def _awaited(self) -> Iterator[None]:
        """Raises connection errors within it as a `ServerAwayError`."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            raise ServerAwayError(
                f"the server at {self._where} does not answer ({error or type(error).__name__}); start one with a3gnn "
                "serve, whose first line shows its URL"
            ) from error

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _refusal(self, response: http.client.HTTPResponse) -> A3GNNError:
        with self._awaited():
            content = response.read()
        if response.headers.get_content_type() != MEDIA_TYPE:
            return A3GNNError(f"{self._where} answered {response.status} {response.reason}; is it an a3gnn server?")
        return error_of(json.loads(content))

    @property
    def _where(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"


def error_of(problem: dict[str, Any]) -> A3GNNError:
    """Returns the error that the server turned into this problem."""
    kind = str(problem["type"]).rpartition(":")[2]
    made = _ERRORS.get(kind, A3GNNError)
    if made is InfeasibleError:
        return InfeasibleError(problem["detail"], problem.get("smallest_limit_bytes"))
    return made(problem["detail"])


class Client:
    """Talks to an `a3gnn serve`.

    Args:
        url: The server's address, which `a3gnn serve` prints as it starts.
        token: The server's --token, if it has one.
        timeout_s: Seconds within which the server must answer or send more data.

    Examples:
        >>> client = Client("http://127.0.0.1:8642")
        >>> study = client.start("graph.npz", priority="time", memory_limit="4GiB", budget="10min")
        >>> tuned = study.wait()

    Raises:
        UsageError: `url` is not the URL of a server.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 600.0) -> None:
        self._http = HttpClient(url, token, timeout_s)

    def graphs(self, **query: Any) -> list[dict[str, Any]]:
        """Returns the server's newest graphs; `called`, `before` and `limit` choose among them."""
        return list(self._http.json("GET", "/graphs", **query)["graphs"])

    def add_graph(self, dataset: str | Path, name: str = "") -> dict[str, Any]:
        """Registers a graph, and returns it. A local .npz file is uploaded; anything else must exist on the server.

        Args:
            dataset: A local .npz file, a path below the server's data root, or synthetic:KEY=VALUE,....
            name: A name for people; the file's name by default.

        Raises:
            GraphError: The graph is not valid, does not exist, or is too large.
            UsageError: `dataset` is a local folder, or a local file other than an .npz.
        """
        path = Path(dataset)
        if path.suffix == ".npz" and path.is_file():
            return self._http.upload("/graphs/upload", path, name=name or printable(path.stem))
        if path.exists():
            raise UsageError(
                f"only an .npz file can be uploaded, got {dataset}, a folder or another file of this machine; convert "
                "it, and give the folder's path below the server's --data-root"
            )
        return self._http.json("POST", "/graphs", {"dataset": str(dataset), "name": name})

    def start(self, dataset: str | Path | int, **options: Any) -> RemoteStudy:
        """Puts a study into the queue, and returns it.

        Args:
            dataset: The number of a registered graph, or a dataset as in `add_graph`.
            options: Further fields of `POST /studies`: priority, memory_limit, budget, fix, ...
                (docs/howto/service.md).

        Raises:
            UsageError: An option is not valid.
            GraphError: The graph is not valid, does not exist, or is too large.
        """
        graph = dataset if isinstance(dataset, int) else self.add_graph(dataset)["id"]
        job = self._http.once("/studies", {"graph": graph, **options})
        return RemoteStudy(self._http, job["id"])

    def studies(self, **query: Any) -> list[dict[str, Any]]:
        """Returns the newest studies; `called`, `status`, `graph`, `before` and `limit` choose among them."""
        return list(self._http.json("GET", "/studies", **query)["studies"])

    def compare(self, *studies: int) -> dict[str, Any]:
        """Returns the comparison of two to four studies, given by number, as `a3gnn compare --json` prints it."""
        return self._http.json("GET", "/comparison", study=studies)

    def study(self, number: int) -> RemoteStudy:
        """Returns the study with this number. A wrong number raises an error only once the study is used."""
        return RemoteStudy(self._http, number)

    def recommend(self, dataset: str | Path | int, **options: Any) -> dict[str, Any]:
        """Returns the configuration preferred by predictions, as `a3gnn recommend --json` prints it.

        Takes the arguments of `start`.
        """
        graph = dataset if isinstance(dataset, int) else self.add_graph(dataset)["id"]
        return self._http.json("POST", "/recommend", {"graph": graph, **options})

    def training(self, number: int) -> dict[str, Any]:
        """Returns the state of a training."""
        return self._http.json("GET", f"/trainings/{number}")

    def machines(self) -> list[dict[str, Any]]:
        """Returns the machines that have measurements."""
        return list(self._http.json("GET", "/machines")["machines"])

    def add_profiles(self, path: str | Path) -> dict[str, int]:
        """Adds measurements from a file written by `a3gnn profiles export`; returns the number of new ones.

        Raises:
            StoreError: A row is not valid; none was added.
        """
        return self._http.upload("/profiles", Path(path))


@contextmanager
def local_study(place: str, token: str | None = None) -> Iterator[tuple[Path, int | None]]:
    """Yields the folder of a tune, and None; or a copy of a study's folder, removed at the end, and its number.

    Args:
        place: A folder, or the address of a study on a server: URL/studies/N, or that of its page.
        token: The server's token, if it has one.

    Raises:
        A3GNNError: The study can't be fetched.
    """
    address = _STUDY_ADDRESS.fullmatch(place)
    if address is None:
        yield Path(place), None
        return
    number = int(address["number"])
    with tempfile.TemporaryDirectory(prefix="a3gnn-study-") as scratch:
        folder = Path(scratch) / f"study-{number}"
        Client(address["url"], token).study(number).save(folder, notify=lambda line: None)
        yield folder, number


class RemoteStudy:
    """A study on a server.

    Attributes:
        id: The study's number.
    """

    def __init__(self, client: HttpClient, number: int) -> None:
        self._http, self.id = client, number
        self._path = f"/studies/{number}"
        self._last = 0  # the last event that `wait` has passed on

    def state(self) -> dict[str, Any]:
        """Returns the study's options, status and progress."""
        return self._http.json("GET", self._path)

    def trials(self, **query: Any) -> list[dict[str, Any]]:
        """Returns its trials; `after`, `limit`, `outcome`, `reason` and `sort` choose among them."""
        return list(self._http.json("GET", f"{self._path}/trials", **query)["trials"])

    def front(self) -> Front:
        """Returns the front of the study, or the front so far if it still runs."""
        return Front.from_dict(self._http.json("GET", f"{self._path}/front"))

    def tuned(self) -> TunedConfig:
        """Returns the chosen configuration.

        Raises:
            A3GNNError: The study has not chosen yet.
        """
        return TunedConfig.from_dict(self._http.json("GET", f"{self._path}/tuned.json"))

    def pick(self, **limits: Any) -> TunedConfig:
        """Returns the best measured configuration under other limits, as `a3gnn.pick` does; no trial runs.

        Args:
            limits: priority, memory_limit, host_memory_limit, max_accuracy_drop, target_accuracy.

        Raises:
            InfeasibleError: Nothing measured keeps the limits.
            UsageError: An argument is not valid.
        """
        return TunedConfig.from_dict(self._http.json("POST", f"{self._path}/pick", limits))

    def save(
        self,
        folder: str | Path,
        dataset: str | None = None,
        notify: Callable[[str], None] | None = None,
        most_bytes: int = 256 << 20,
    ) -> TuneResult | None:
        """Writes the files of a tune, which `a3gnn front`, `report`, `pick`, `compare` and `export` read.

        Args:
            folder: A new or empty folder.
            dataset: A dataset that loads the graph on this machine; by default its name on the server.
            notify: Receives lines for people; by default they are printed, in a script to stderr.
            most_bytes: Most bytes of one file. A trial takes some 5 KB of the largest.

        Returns:
            The same as `tune`; None if the study has not chosen, in which case the measurements so far are written.

        Raises:
            UsageError: The folder is not empty, or the study has measured nothing yet.
            AbsentError: There is no such study, or it has not begun.
            ConfigError: Its files do not match this version.
            A3GNNError: The folder can't be written, such as when the disk is full.
        """
        from a3gnn.tuning.study.folder import check_folder

        folder = Path(folder)
        check_folder(folder, resume=False)
        try:
            result = self._save(folder, dataset, listener(notify), most_bytes)
        except OSError as error:
            raise A3GNNError(
                f"the study can't be written to {folder} ({error.strerror or error}), and nothing was left there; free "
                "some space, or choose another folder"
            ) from error
        return result and dataclasses.replace(result, folder=folder)

    def wait(self, notify: Callable[[str], None] | None = None, patience_s: float = 60.0) -> TunedConfig:
        """Waits until the study ends, also across a restart of the server, and returns the chosen configuration.

        Args:
            notify: Receives each line of output, earlier ones included. By default they are printed, in a script to
                stderr.
            patience_s: Seconds for which the server may be away, such as while it restarts.

        Raises:
            A3GNNError: The study failed. The error is the one that a local tune would have raised.
        """
        notify, away, self._last = listener(notify), 0.0, 0
        while True:
            try:
                self._follow(notify)
                away = 0.0
                state = self.state()
            except ServerAwayError:
                away = away or time.monotonic()
                if time.monotonic() > away + patience_s:
                    raise
                time.sleep(LOOK_S)
                continue
            if state["status"] == "failed":
                raise error_of(state["error"])
            if state["status"] in ("finished", "stopped"):
                return self.tuned()

    def stop(self) -> dict[str, Any]:
        """Ends the study with the best so far; returns its state, which may still be `stopping`."""
        return self._http.json("POST", f"{self._path}/stop")

    def resume(self, budget: str | int | None = None) -> dict[str, Any]:
        """Continues the study, under a larger budget if one is given; returns its state."""
        order: Mapping[str, Any] = {} if budget is None else {"budget": budget}
        return self._http.json("POST", f"{self._path}/resume", order)

    def retry(self) -> dict[str, Any]:
        """Continues the study, and forgets its failed trials; returns its state."""
        return self._http.json("POST", f"{self._path}/retry")

    def suggest(self, wait_s: float = 10.0) -> dict[str, Any] | None:
        """Returns the number, config and plan of the trial that waits for figures, if `trainer="client"`.

        Args:
            wait_s: Seconds to wait for such a trial. Returns None if none came by then, or if the study has ended.
        """
        answer = self._http.json("POST", f"{self._path}/suggestions", wait=wait_s)
        return None if answer["suggestion"] is None else dict(answer["suggestion"])

    def tell(self, number: int, **figures: Any) -> None:
        """Reports figures of trial `number`: throughput_epochs_per_s, peak_host_bytes, ... (docs/reference/http.md)."""
        self._http.json("POST", f"{self._path}/trials/{number}/complete", figures)

    def train(self, **options: Any) -> dict[str, Any]:
        """Starts a training with the study's choice on the server, and returns it. Takes `epochs` and `patience`."""
        return self._http.once(f"{self._path}/train", options)

    def delete(self, *, forever: bool = False) -> None:
        """Puts the study into the trash for a week, or removes it and its files; it must have ended."""
        self._http.json("DELETE", self._path, forever=str(forever).lower())

    def restore(self) -> dict[str, Any]:
        """Takes the study out of the trash; returns its state."""
        return self._http.json("POST", f"{self._path}/restore")

    def _save(
        self, folder: Path, dataset: str | None, notify: Callable[[str], None], most_bytes: int
    ) -> TuneResult | None:
        """Writes the study to `folder`, whole or not at all, and returns its result, if any."""
        from a3gnn.service.studies.study_files import FILES
        from a3gnn.tuning.outcome.result import write_result
        from a3gnn.tuning.study.folder import read_request, write_request

        with replacing(folder) as draft:
            draft.mkdir()
            for name in FILES:
                try:
                    self._http.download(f"{self._path}/files/{name}", draft / name, most_bytes)
                except AbsentError:
                    if name in _NEEDED:
                        raise
            if dataset is not None:
                write_request(draft, dataclasses.replace(read_request(draft), spec=dataset))
            result = _result(draft, dataset)
            if result is not None:
                write_result(result, notify)
            written = draft.stat().st_ino
        if folder.stat().st_ino != written:
            raise UsageError(
                f"{folder} must stay empty while a study is saved, but something was written there; choose another "
                "folder"
            )
        return result

    def _follow(self, notify: Callable[[str], None]) -> None:
        """Passes new lines on to `notify`, until the stream ends or the server goes away."""
        fields: dict[str, str] = {}
        for line in self._http.lines(f"{self._path}/events", self._last):
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if fields.get("event") == "line":
                notify(str(json.loads(fields["data"])["text"]))
            self._last, fields = int(fields.get("id", self._last)), {}


def _result(folder: Path, dataset: str | None) -> TuneResult | None:
    """Returns the result of the study in `folder`, with `dataset` as its graph; None if it has not chosen."""
    from a3gnn.tuning.outcome.kept_tune import KeptTune
    from a3gnn.tuning.outcome.result import SearchSummary, TuneResult

    tune = KeptTune.read(folder)
    if tune.tuned is None:
        return None
    tuned = tune.tuned if dataset is None else dataclasses.replace(tune.tuned, spec=dataset)
    request, trials = tune.history.study.request, tune.history.trials
    not_told = SearchSummary(request.engine)
    counted = sum(trial.counts for trial in trials)
    return TuneResult(folder, tuned, tune.front, not_told, counted, tune.state.elapsed_s)
