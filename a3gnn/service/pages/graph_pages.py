"""Pages of graphs: the registered ones with their characteristics, and those below the data root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from a3gnn.errors import A3GNNError
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.http.answers import PROBLEMS, Asked, Number, form_of
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.database import MOST
from a3gnn.service.jobs.jobs import ON_A_PAGE, JobFilter
from a3gnn.service.pages.frame import for_people, page
from a3gnn.service.pages.study_list import row_of, when
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import Word
from a3gnn.units import count, format_size

router = APIRouter(tags=["pages"], responses=PROBLEMS)
#: Kinds of labels (`GraphCharacteristics.target`), and what a model has an output for.
_OUTPUTS = {"classes": ("class", "classes"), "labels": ("label", "labels"), "values": ("value", "values")}
_ORIGINS = {"upload": "uploaded", "path": "below the data root", "synthetic": "synthetic"}


@router.get("/graphs/page", include_in_schema=False)
def graphs_page(
    service: Asked, find: Word = "", before: Annotated[int | None, Query(ge=1, le=MOST)] = None
) -> Response:
    """Shows the registered graphs."""
    graphs = service.graphs.newest(before, ON_A_PAGE, find)
    rows = [
        {
            "id": graph.id,
            "name": graph.name,
            "origin": _ORIGINS.get(graph.origin, graph.origin),
            "has_path": graph.origin == "path",
            "source": graph.source,
            "about": graph.about,
            "when": when(graph.created),
        }
        for graph in graphs
    ]
    return page(
        service,
        "graphs.html",
        title="Graphs",
        rows=rows,
        find=find,
        older=f"/graphs/page?find={quote(find)}&before={graphs[-1].id}" if len(graphs) == ON_A_PAGE else "",
        most=format_size(service.settings.max_upload_bytes),
        has_root=service.settings.data_root is not None,
    )


@router.get("/graphs/browse", include_in_schema=False)
def browse_page(service: Asked, folder: Annotated[str, Query(max_length=4096)] = "") -> Response:
    """Shows a folder below the data root."""
    return _browse(service, folder)


@router.post("/graphs/browse", include_in_schema=False)
async def register(service: Asked, request: Request) -> Response:
    """Registers a graph below the data root, and shows it."""
    form = await form_of(request, 4)
    dataset, folder = form.get("dataset", "")[:4096], form.get("folder", "")[:4096]
    try:
        graph = await to_thread.run_sync(service.graphs.register, dataset)
    except (A3GNNError, ProblemDetails) as error:
        problem = ProblemDetails.of(error)
        said = for_people(service.home.places.shown(problem.detail))
        return await to_thread.run_sync(_browse, service, folder, said, problem.status)
    return RedirectResponse(f"/graphs/{graph.id}/page", 303)


@router.get("/graphs/{graph}/page", include_in_schema=False)
def graph_page(service: Asked, graph: Number) -> Response:
    """Shows a graph with its characteristics and its studies."""
    return _graph(service, service.graphs.get(graph))


@router.post("/graphs/{graph}/page", include_in_schema=False)
async def delete(service: Asked, request: Request, graph: Number) -> Response:
    """Removes a graph that no study uses."""
    await form_of(request, 4)
    known = await to_thread.run_sync(service.graphs.get, graph)
    try:
        await to_thread.run_sync(service.graphs.delete, graph)
    except ProblemDetails as problem:
        return await to_thread.run_sync(_graph, service, known, problem.detail, problem.status)
    return RedirectResponse("/graphs/page", 303)


def _graph(service: Service, graph: KnownGraph, wrong: str = "", status: int = 200) -> Response:
    studies = service.jobs.newest(JobFilter("study", graph=graph.id))
    return page(
        service,
        "graph.html",
        status,
        title=graph.name,
        graph=graph,
        about=characteristics(graph),
        notes=graph.about.get("notes", ()),
        origin=_ORIGINS.get(graph.origin, graph.origin),
        when=when(graph.created),
        studies=[row_of(study, graph.name, service.home) for study in studies],
        wrong=wrong,
    )


def _browse(service: Service, folder: str, wrong: str = "", status: int = 200) -> Response:
    found = listing(service.settings.data_root, folder)
    return page(service, "browse.html", status, title="Data root", found=found, wrong=wrong)


def facts(graph: KnownGraph) -> str:
    """Returns the size of a graph in a line: `2,708 nodes, 10,556 edges, 1,433 features, 7 classes`."""
    about = graph.about
    if "num_nodes" not in about:
        return ""
    noun = _OUTPUTS.get(str(about.get("target", "classes")), _OUTPUTS["classes"])
    return ", ".join(
        (
            count(about["num_nodes"], "node"),
            count(about["num_edges"], "edge"),
            count(about["num_features"], "feature"),
            count(about["num_classes"], *noun),
        )
    )


def characteristics(graph: KnownGraph) -> list[tuple[str, str]]:
    """Returns the characteristics of a graph, a name and a text each."""
    about = graph.about
    if "num_nodes" not in about:
        return []
    nodes = max(about["num_nodes"], 1)
    kind = "sparse" if about["sparse_features"] else "dense"
    labels = _OUTPUTS.get(str(about.get("target", "classes")), _OUTPUTS["classes"])
    found = [
        ("Nodes", f"{about['num_nodes']:,}"),
        ("Edges", f"{about['num_edges']:,} directed"),
        ("Degree", f"{about['mean_degree']:.3g} on average, {about['max_degree']:,} at most"),
        (
            "Features",
            f"{about['num_features']:,}, {kind}, {format_size(about['feature_bytes'])}"
            + (f", {about['feature_density']:.1%} filled" if about["sparse_features"] else ""),
        ),
        ("Links between", f"nodes: {' and '.join(f'{count:,}' for count in about['ends'])}")
        if about.get("ends")
        else (labels[1].capitalize(), f"{about['num_classes']:,}"),
        (
            "Split",
            ", ".join(
                f"{about[f'num_{part}']:,} {name}"
                + ("" if about.get("ends") else f" ({about[f'num_{part}'] / nodes:.0%})")
                for part, name in (("train", "train"), ("val", "validation"), ("test", "test"))
            ),
        ),
        ("Components", f"{about['num_components']:,}; the largest has {about['largest_component']:.0%} of the nodes"),
    ]
    if about.get("target", "classes") == "classes":
        found.append(("Homophily", f"{about['homophily']:.2f} of the edges join equal classes"))
    return found


#: Entries of a folder that a page looks at, and that it shows: it leads to a graph, and is no list to read.
_LOOKED_AT, _SHOWN = 10_000, 500
#: The file that marks a converted graph's folder (`a3gnn.graphs.folder`).
_MARK = "meta.json"


class FolderEntry(NamedTuple):
    """A graph or a folder."""

    name: str
    path: str  # its path below the data root
    is_graph: bool  # whether it is a graph: an .npz file or a converted folder
    size: str  # its size in words; "" for folders


class Listing(NamedTuple):
    """A folder below the data root.

    Attributes:
        folder: Its path below the data root; "" for the root itself.
        parents: Names and paths of the folders above it, the root first.
        entries: Folders, then graphs, by name.
        is_whole: Whether all entries are shown.
    """

    folder: str
    parents: tuple[tuple[str, str], ...]
    entries: tuple[FolderEntry, ...]
    is_whole: bool


def listing(root: Path | None, folder: str) -> Listing:
    """Returns the folders and the graphs in `folder`, a path below `root`. Links that leave the root are left out.

    Raises:
        ProblemDetails: There is no data root, or no such folder below it.
    """
    if root is None:
        raise ProblemDetails(404, "not-found", "this server has no data root; a3gnn serve --data-root sets one")
    try:
        root = root.resolve(strict=True)
        path = (root / folder).resolve(strict=True)
        inside = path.is_relative_to(root) and path.is_dir()
        found = list(islice(os.scandir(path), _LOOKED_AT + 1)) if inside else []
    except (OSError, ValueError, RuntimeError):
        inside, found = False, []
    if not inside:
        raise ProblemDetails(
            404, "not-found", f"{folder[:200]!r} is no folder below the data root; open the data root itself"
        )
    below = "" if path == root else str(path.relative_to(root))
    entries = sorted(_entries(root, path, found[:_LOOKED_AT]), key=lambda one: (one.is_graph, one.name.lower()))
    parts = Path(below).parts
    parents = (("data root", ""), *((part, str(Path(*parts[: i + 1]))) for i, part in enumerate(parts)))
    whole = len(found) <= _LOOKED_AT and len(entries) <= _SHOWN
    return Listing(below, parents, tuple(entries[:_SHOWN]), whole)


def _entries(root: Path, path: Path, found: list[os.DirEntry[str]]) -> Iterator[FolderEntry]:
    for one in found:
        try:
            real = Path(one.path).resolve(strict=True)
            if one.name.startswith(".") or not real.is_relative_to(root) or not one.name.isprintable():
                continue
            below = str((path / one.name).relative_to(root))
            if real.is_dir():
                yield FolderEntry(one.name, below, (real / _MARK).is_file(), "")
            elif real.is_file() and real.suffix == ".npz":
                yield FolderEntry(one.name, below, True, format_size(real.stat().st_size))
        except (OSError, RuntimeError):
            continue
