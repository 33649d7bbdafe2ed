"""`a3gnn machines`: lists the machines of a Ray cluster that can run trials."""

from __future__ import annotations

import json
from contextlib import closing

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, show, show_json
from a3gnn.units import count


@click.command(cls=Command)
@click.option("--here", is_flag=True, help="Print the value of ray start --resources for this machine.")
@click.option("--ray-address", metavar="HOST:PORT", help="Head of the Ray cluster. Default: the head on this machine.")
@JSON
def machines(here: bool, ray_address: str | None, as_json: bool) -> None:
    """List the machines of a Ray cluster that can run trials, by kind.

    Start Ray on each of them with ray start --address HEAD:PORT --resources "$(a3gnn machines --here)"; see
    docs/howto/ray.md. Machines with equal hardware form one kind. The variable A3GNN_MACHINE_LABEL, set for both
    commands, names the kind.
    """
    if here:
        from a3gnn.machine.probe import bare_machine
        from a3gnn.profiling.cluster.connection import resources_of

        click.echo(json.dumps(resources_of(bare_machine())))  # on one line, for a shell
        return
    from a3gnn.profiling.cluster.connection import Connection

    with closing(Connection(ray_address)) as cluster:
        kinds = cluster.kinds()
        studies = {one.node: cluster.studies(one.node) for kind in kinds.values() for one in kind.machines}
    if as_json:
        show_json({"kinds": [kind.to_dict() for kind in kinds.values()], "studies": studies})
        return
    for kind in kinds.values():
        label = f", hardware {kind.fingerprint}" if kind.label else ""
        show(f"{kind.name}{label}")
        for one in kind.machines:
            gpus = f", {count(round(one.gpus), 'GPU')}" if one.gpus else ""
            runs = "1 study" if studies[one.node] == 1 else f"{studies[one.node]} studies"
            show(f"  {one.name}  {count(round(one.cpus), 'core')}{gpus}, {runs}")
    if not kinds:
        show("the cluster has no machine for trials; a3gnn machines --help shows how to add one")
