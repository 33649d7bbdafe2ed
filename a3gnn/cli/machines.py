"""`a3gnn machines`: lists the machines of a Ray cluster that can run trials."""

from __future__ import annotations

import json
from contextlib import closing

import click

from a3gnn.cli.output import show
from a3gnn.units import count


@click.command()
@click.option("--here", is_flag=True, help="Print what ray start --resources takes on this machine, nothing else.")
@click.option("--ray-address", metavar="HOST:PORT", help="The cluster's head; by default the one on this machine.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def machines(here: bool, ray_address: str | None, as_json: bool) -> None:
    """List the machines of a Ray cluster that trials may be sent to, by kind.

    A machine is one of them where Ray was started by ray start --address HEAD:PORT --resources "$(a3gnn machines
    --here)"; see docs/howto/ray.md. Machines of equal hardware are of one kind; with A3GNN_MACHINE_LABEL in the
    environment of both commands, a kind has the name that is given there.
    """
    if here:
        from a3gnn.machine.probe import bare_machine
        from a3gnn.profiling.cluster.connection import resources_of

        click.echo(json.dumps(resources_of(bare_machine())))
        return
    from a3gnn.profiling.cluster.connection import Connection

    with closing(Connection(ray_address)) as cluster:
        kinds = cluster.kinds()
        studies = {one.node: cluster.studies(one.node) for kind in kinds.values() for one in kind.machines}
    if as_json:
        click.echo(json.dumps({"kinds": [kind.to_dict() for kind in kinds.values()], "studies": studies}, indent=2))
        return
    for kind in kinds.values():
        label = f", hardware {kind.fingerprint}" if kind.label else ""
        show(f"{kind.name}{label}")
        for one in kind.machines:
            gpus = f", {count(round(one.gpus), 'GPU')}" if one.gpus else ""
            runs = "1 study" if studies[one.node] == 1 else f"{studies[one.node]} studies"
            show(f"  {one.name}  {count(round(one.cpus), 'core')}{gpus}, {runs}")
    if not kinds:
        show("the cluster has no machine that trials may be sent to; a3gnn machines --help says how it gets one")
