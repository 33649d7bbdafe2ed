"""`unknowns`: what the predictions of a study can't know, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.measurement import Measurement
from a3gnn.tuning.outlook import Outlook
from a3gnn.units import count

#: A graph is unlike all that were measured where a characteristic of it is so many times outside their range. Guess.
_FAR = 2.0

#: What is compared, and how it is called.
_SHAPE: tuple[tuple[str, Callable[[GraphCharacteristics], float]], ...] = (
    ("nodes", lambda graph: graph.num_nodes),
    ("in-neighbours per node", lambda graph: graph.mean_degree),
    ("features", lambda graph: graph.num_features),
    ("stored features per node", lambda graph: graph.num_features * graph.feature_density),
    ("train seeds", lambda graph: graph.num_train),
)


def unknowns(outlook: Outlook) -> Iterator[str]:
    """Yields what no measurement says of the study of `outlook`, a sentence each."""
    rows = [row for row in outlook.history.study.corpus if row.metrics is not None]
    if not rows:
        yield "Nothing at all was measured: these are equations and the probe of the machine alone."
    else:
        yield from _of_the_setting(outlook, rows)
    if not outlook.knows_accuracy:
        label = outlook.setting.metric.label
        yield f"The {label} that this graph allows: it is predicted beside the default's alone."
    if not outlook.knows_seconds:
        yield f"The seconds to that {outlook.setting.metric.label}: they are predicted beside the default's alone."


def _of_the_setting(outlook: Outlook, rows: Sequence[Measurement]) -> Iterator[str]:
    """Yields what none of `rows`, at least one, is about."""
    setting = outlook.setting
    graph, hardware, task = setting.graph, setting.hardware, setting.task
    if not any(row.setting.hardware.may_be(hardware) for row in rows):
        machines = len({row.setting.hardware.fingerprint for row in rows})
        yield (
            "Nothing was measured on this machine: its speed is what the probe found, corrected by what "
            f"{count(machines, 'other machine')} did."
        )
        if hardware.has_device and not any(row.setting.hardware.has_device for row in rows):
            yield "Nothing was measured with a GPU: what it does is predicted by equations alone."
    if all(row.setting.graph.fingerprint != graph.fingerprint for row in rows):
        yield "Nothing was measured of this graph."
        yield from _of_the_shape(graph, [row.setting.graph for row in rows])
    models = sorted({row.setting.task.model for row in rows})
    if task.model not in models:
        yield f"Nothing was measured of the model {task.model}, only of {', '.join(models)}."
    if (task.norm, task.residual) not in {(row.setting.task.norm, row.setting.task.residual) for row in rows}:
        yield (
            f"Nothing was measured with norm {task.norm} and residual connections {'on' if task.residual else 'off'}: "
            "what they add to a step is predicted by equations alone, and what they do to what is learnt is not."
        )


def _of_the_shape(graph: GraphCharacteristics, measured: Sequence[GraphCharacteristics]) -> Iterator[str]:
    """Yields in what `graph` is unlike the `measured` ones."""
    if graph.sparse_features not in {one.sparse_features for one in measured}:
        yield f"No graph with {'sparse' if graph.sparse_features else 'dense'} features was measured."
    for name, value_of in _SHAPE:
        own, others = value_of(graph), [value_of(one) for one in measured]
        if own > _FAR * max(others) or own < min(others) / _FAR:
            yield (
                f"The graph is unlike all that were measured: it has {own:,.0f} {name}, they have {min(others):,.0f} "
                f"to {max(others):,.0f}. The intervals do not allow for that."
            )
