"""`Client`: a server's studies, from Python."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.errors import UsageError
from a3gnn.notify import listener
from a3gnn.report.front import Front
from a3gnn.service.http_client import HttpClient, ServerAwayError, error_of
from a3gnn.training.tuned import TunedConfig
from a3gnn.units import printable

if TYPE_CHECKING:
    from a3gnn.tuning.outcome.result import TuneResult

#: Seconds for which a server that is being restarted is waited for. Guess.
_PATIENCE_S = 60.0


class Client:
    """Talks to an `a3gnn serve`.

    Args:
        url: Where it is: what it says as it starts.
        token: Its --token, if it has one.
        timeout_s: Seconds in which it must answer.

    Examples:
        >>> client = Client("http://127.0.0.1:8642")
        >>> study = client.start("graph.npz", priority="time", memory_limit="4GiB", budget="10min")
        >>> tuned = study.wait()

    Raises:
        UsageError: The URL is none of a server.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 600.0) -> None:
        self._http = HttpClient(url, token, timeout_s)

    def graphs(self, **query: Any) -> list[dict[str, Any]]:
        """Returns the newest graphs that the server knows; `called`, `before` and `limit` choose among them."""
        found: list[dict[str, Any]] = self._http.json("GET", "/graphs", **query)["graphs"]
        return found

    def add_graph(self, dataset: str | Path, name: str = "") -> dict[str, Any]:
        """Returns a graph, registered: an .npz file that is here is uploaded, anything else the server must have.

        Args:
            dataset: An .npz file of this machine; or a path below the server's data root, or synthetic:KEY=VALUE,....
            name: What people call it.

        Raises:
            GraphError: It is not valid, not there, or too large.
        """
        path = Path(dataset)
        if path.suffix == ".npz" and path.is_file():
            found: dict[str, Any] = self._http.upload("/graphs/upload", path, name=name or printable(path.stem))
        elif path.exists():
            raise UsageError(
                f"an .npz file can be uploaded, got {dataset}, which is a folder or another file of this machine; give "
                "the server's own path, below its --data-root, to the converted folder"
            )
        else:
            found = self._http.json("POST", "/graphs", {"dataset": str(dataset), "name": name})
        return found

    def start(self, dataset: str | Path | int, **options: Any) -> RemoteStudy:
        """Returns a study that was put into the queue.

        Args:
            dataset: As of `add_graph`, or the number of a graph that the server knows.
            options: What `POST /studies` takes beside it: priority, memory_limit, budget, fix, ... (docs/service.md).

        Raises:
            UsageError: An option is not what it must be.
            GraphError: As of `add_graph`.
        """
        graph = dataset if isinstance(dataset, int) else self.add_graph(dataset)["id"]
        job = self._http.json("POST", "/studies", {"graph": graph, **options})
        return RemoteStudy(self._http, job["id"])

    def studies(self, **query: Any) -> list[dict[str, Any]]:
        """Returns the newest studies; `status`, `graph`, `before` and `limit` choose among them."""
        found: list[dict[str, Any]] = self._http.json("GET", "/studies", **query)["studies"]
        return found

    def study(self, number: int) -> RemoteStudy:
        """Returns the study with this number; that there is one shows when it is asked for something."""
        return RemoteStudy(self._http, number)

    def recommend(self, dataset: str | Path | int, **options: Any) -> dict[str, Any]:
        """Returns what predictions prefer, as `a3gnn recommend --json` prints it; arguments as of `start`."""
        graph = dataset if isinstance(dataset, int) else self.add_graph(dataset)["id"]
        found: dict[str, Any] = self._http.json("POST", "/recommend", {"graph": graph, **options})
        return found

    def training(self, number: int) -> dict[str, Any]:
        """Returns how far a training is."""
        found: dict[str, Any] = self._http.json("GET", f"/trainings/{number}")
        return found

    def machines(self) -> list[dict[str, Any]]:
        """Returns the machines that were measured on."""
        found: list[dict[str, Any]] = self._http.json("GET", "/machines")["machines"]
        return found

    def add_profiles(self, path: str | Path) -> dict[str, int]:
        """Adds the measurements in a file that `a3gnn profiles export` wrote; returns how many were new.

        Raises:
            StoreError: Something is wrong with a row; none was added.
        """
        found: dict[str, int] = self._http.upload("/profiles", Path(path))
        return found


class RemoteStudy:
    """A study on a server.

    Attributes:
        id: Its number.
    """

    def __init__(self, client: HttpClient, number: int) -> None:
        self._http, self.id = client, number
        self._path = f"/studies/{number}"
        self._last = 0  # event that `wait` was given

    def state(self) -> dict[str, Any]:
        """Returns what was asked for, its status, and how far it is."""
        found: dict[str, Any] = self._http.json("GET", self._path)
        return found

    def trials(self, **query: Any) -> list[dict[str, Any]]:
        """Returns its trials; `after`, `limit`, `outcome`, `reason` and `sort` choose among them."""
        found: list[dict[str, Any]] = self._http.json("GET", f"{self._path}/trials", **query)["trials"]
        return found

    def front(self) -> Front:
        """Returns its front; of a study that runs, so far."""
        return Front.from_dict(self._http.json("GET", f"{self._path}/front"))

    def tuned(self) -> TunedConfig:
        """Returns its choice.

        Raises:
            A3GNNError: It has not chosen yet.
        """
        return TunedConfig.from_dict(self._http.json("GET", f"{self._path}/tuned.json"))

    def save(
        self, folder: str | Path, dataset: str | None = None, notify: Callable[[str], None] | None = None
    ) -> TuneResult | None:
        """Writes what a tune leaves in its folder, which `a3gnn front`, `report`, `pick`, `compare` and `export` take.

        Args:
            folder: A new or empty one.
            dataset: What loads its graph here; by default what it was called on the server.
            notify: Takes lines for people; by default a notebook prints them.

        Returns:
            What `tune` returns; None of a study that has not chosen, of which there is what it has measured so far.

        Raises:
            UsageError: The folder holds something, or the study has measured nothing yet.
        """
        from a3gnn.service.saved_study import save_study

        return save_study(self._http, self._path, Path(folder), dataset, listener(notify))

    def wait(self, notify: Callable[[str], None] | None = None) -> TunedConfig:
        """Returns its choice, once it has ended; a server that is restarted meanwhile is waited for.

        Args:
            notify: Takes each line of its output, those before the call too; by default a notebook prints them.

        Raises:
            A3GNNError: It failed: what a local tune would have raised.
        """
        notify, away, self._last = listener(notify), 0.0, 0
        while True:
            try:
                self._follow(notify)
                away = 0.0
                state = self.state()
            except ServerAwayError:
                away = away or time.monotonic()
                if time.monotonic() > away + _PATIENCE_S:
                    raise
                time.sleep(0.5)
                continue
            if state["status"] == "failed":
                raise error_of(state["error"])
            if state["status"] in ("finished", "stopped"):
                return self.tuned()

    def stop(self) -> dict[str, Any]:
        """Has it end now, with the best so far; returns its state, which may still be `stopping`."""
        found: dict[str, Any] = self._http.json("POST", f"{self._path}/stop")
        return found

    def resume(self, budget: str | int | None = None) -> dict[str, Any]:
        """Goes on with it, under a larger budget if one is given; returns its state."""
        order: Mapping[str, Any] = {} if budget is None else {"budget": budget}
        found: dict[str, Any] = self._http.json("POST", f"{self._path}/resume", order)
        return found

    def retry(self) -> dict[str, Any]:
        """Goes on with it as if its failed trials had not been made; returns its state."""
        found: dict[str, Any] = self._http.json("POST", f"{self._path}/retry")
        return found

    def suggest(self, wait_s: float = 10.0) -> dict[str, Any] | None:
        """Returns the trial of a study with `trainer="client"` that waits for figures: its number, config and plan.

        Args:
            wait_s: So long one is waited for; None where there is none by then, or the study has ended.
        """
        answer = self._http.json("POST", f"{self._path}/suggestions", wait=wait_s)
        found: dict[str, Any] | None = answer["suggestion"]
        return found

    def tell(self, number: int, **figures: Any) -> None:
        """Tells what the trial `number` reached: throughput_epochs_per_s, peak_host_bytes, ... (docs/service.md)."""
        self._http.json("POST", f"{self._path}/trials/{number}/complete", figures)

    def train(self, **options: Any) -> dict[str, Any]:
        """Trains with its choice on the server; returns the training. `epochs` and `patience` may be given."""
        found: dict[str, Any] = self._http.json("POST", f"{self._path}/train", options)
        return found

    def delete(self) -> None:
        """Removes it, with its files; it must have ended."""
        self._http.json("DELETE", self._path)

    def _follow(self, notify: Callable[[str], None]) -> None:
        """Gives `notify` the lines that it was not given yet, until no more come, or the server goes away."""
        fields: dict[str, str] = {}
        for line in self._http.lines(f"{self._path}/events", self._last):
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if fields.get("event") == "line":
                notify(str(json.loads(fields["data"])["text"]))
            self._last, fields = int(fields.get("id", self._last)), {}
