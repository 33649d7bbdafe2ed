"""`Command`: a command whose help lists its options in groups, the common ones first, and ends with examples."""

from __future__ import annotations

from typing import Any

import click

from a3gnn.cli.output import say_usage
from a3gnn.errors import UsageError

#: Options that say what is trained.
_MODEL = (
    *("model", "layers", "fanouts", "hidden", "heads", "dropout", "norm", "residual", "linear_residual"),
    *("lr", "weight_decay", "lr_schedule", "lr_epochs", "loss", "decoder", "negatives", "own_links", "pair_history"),
)
_TRIALS = ("executor", "ray_address", "machines")
_OTHER = ("Other options", ("as_json", "help"))
#: Options of a command: a heading, and the options in order. A command without groups has one list.
GROUPS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "tune": (
        ("Common options", ("dataset", "memory_limit", "budget", "priority", "out", "resume", "verbose", "quiet")),
        ("Model", _MODEL),
        (
            "Accuracy",
            (
                *("max_accuracy_drop", "target_accuracy", "metric", "class_weights"),
                *("accuracy_epochs", "references", "target", "split", "split_seed"),
            ),
        ),
        ("Search", ("search", "fix", "ranges", "engine", "seed", "store", "host_memory_limit", "disk_limit")),
        ("Other machines", ("server", "token", *_TRIALS)),
        _OTHER,
    ),
    "recommend": (
        ("Common options", ("dataset", "memory_limit", "priority", "out", "quiet")),
        ("Model", _MODEL),
        ("Accuracy", ("max_accuracy_drop", "metric", "class_weights", "target", "split", "split_seed")),
        ("Search", ("fix", "ranges", "seed", "store", "host_memory_limit")),
        _OTHER,
    ),
    "train": (
        (
            "Common options",
            (
                *("epochs", "patience", "until_target", "auto", "fix", "out", "resume", "path", "dataset"),
                *("verbose", "quiet"),
            ),
        ),
        ("Model", (*_MODEL, "seed")),
        ("Accuracy", ("target_accuracy", "metric", "class_weights", "references", "target", "split", "split_seed")),
        ("Memory and disk", ("host_memory_limit", "disk_limit", "adapt")),
        ("Several processes", ("ranks", "algorithm")),
        (
            "Several trainers in one process",
            ("trainers", "trainer_shares", "trainer_sampling", "trainer_stall", "prefetch"),
        ),
        _OTHER,
    ),
    "predict": (
        ("Common options", ("dataset", "out", "target", "quiet")),
        ("Memory and disk", ("host_memory_limit", "disk_limit", "scratch_dtype")),
        ("Without a model", ("heuristic",)),
        ("Links and edges", ("top", "at", "edges")),
        _OTHER,
    ),
    "profile": (
        ("Common options", ("dataset", "configs", "memory_limit", "store", "export", "quiet")),
        ("Model", _MODEL),
        ("Accuracy", ("metric", "class_weights", "target", "split", "split_seed")),
        ("Trials", ("train_seconds", "accuracy_epochs", "timeout", "seed")),
        ("Other machines", _TRIALS),
        _OTHER,
    ),
    "serve": (
        ("Common options", ("folder", "data_root", "host", "port", "token")),
        ("Access", ("allow_host", "allow_model", "access_log")),
        ("Limits of graphs", ("max_upload", "max_uploads", "max_nodes", "max_edges")),
        ("Limits of studies", ("max_budget", "max_trials", "max_epochs", "max_hidden", "max_memory")),
        ("Queue", ("max_queued", "at_once", "lease")),
        ("Storage", ("database",)),
        ("Other machines", _TRIALS),
        ("Other options", ("help",)),
    ),
    "explore": (
        ("Common options", ("platform", "dataset", "devices", "algorithms")),
        ("Model", ("model", "layers", "hidden", "fanouts", "batch_size")),
        ("Design", ("ceiling", "every")),
        ("Data movement", ("beta", "indirect", "sampling_seconds", "loss_seconds")),
        _OTHER,
    ),
}
#: Two examples for each command that has options.
EXAMPLES: dict[str, tuple[str, str]] = {
    "tune": (
        "a3gnn tune --dataset graph.npz --memory-limit 4GiB --out runs/mine",
        "a3gnn tune --dataset pyg:Cora --model gcn --priority memory --budget 10min",
    ),
    "recommend": (
        "a3gnn recommend --dataset graph.npz --memory-limit 4GiB",
        "a3gnn recommend --dataset graph.npz --out runs/predicted",
    ),
    "train": ("a3gnn train runs/mine --out runs/trained", "a3gnn train --model gcn --dataset graph.npz --epochs 20"),
    "predict": (
        "a3gnn predict runs/trained --dataset graph.npz --out predictions.npy",
        "a3gnn predict runs/trained/model.pt --dataset pyg:Cora --out cora.npy",
    ),
    "status": ("a3gnn status runs/mine", "a3gnn status runs/mine --json"),
    "stop": ("a3gnn stop runs/mine", "a3gnn stop runs/mine --json"),
    "front": ("a3gnn front runs/mine", "a3gnn front runs/mine --all"),
    "pick": (
        "a3gnn pick runs/mine --priority memory",
        "a3gnn pick runs/mine --max-memory 2GiB --max-accuracy-drop 0.5",
    ),
    "pull": (
        "a3gnn pull http://127.0.0.1:8642 1 runs/copied",
        "a3gnn pull https://gnn.example 7 runs/copied --dataset graph.npz",
    ),
    "compare": ("a3gnn compare runs/a runs/b", "a3gnn compare runs/a runs/b --csv"),
    "export": (
        "a3gnn export runs/mine --optuna sqlite:///optuna.db",
        "a3gnn export runs/mine --optuna sqlite:///optuna.db --replace",
    ),
    "report": ("a3gnn report runs/mine", "a3gnn report runs/mine --out mine.html"),
    "serve": ("a3gnn serve --data-root graphs", "a3gnn serve --host 0.0.0.0 --allow-host gpu-box --token SECRET"),
    "graph convert": (
        "a3gnn graph convert graph.npz graphs/mine",
        "a3gnn graph convert ogb:ogbn-arxiv graphs/arxiv --split 0.6,0.2,0.2",
    ),
    "graph info": ("a3gnn graph info graph.npz", "a3gnn graph info pyg:Cora --json"),
    "graph verify": ("a3gnn graph verify graphs/mine", "a3gnn graph verify graphs/mine --json"),
    "parts make": (
        "a3gnn parts make graphs/mine parts --num-parts 4",
        "a3gnn parts make graphs/mine parts --num-parts 2 --partitioner random",
    ),
    "parts serve": ("a3gnn parts serve parts/part-0", "a3gnn parts serve parts/part-0 --host 0.0.0.0 --token SECRET"),
    "profile": (
        "a3gnn profile --dataset graph.npz --configs 20",
        "a3gnn profile --dataset graph.npz --configs 50 --export rows.jsonl.gz",
    ),
    "profiles list": ("a3gnn profiles list", "a3gnn profiles list --store runs/mine/profiles.sqlite"),
    "profiles check": ("a3gnn profiles check", "a3gnn profiles check rows.jsonl.gz"),
    "profiles export": (
        "a3gnn profiles export rows.jsonl.gz",
        "a3gnn profiles export rows.jsonl --store runs/mine/profiles.sqlite",
    ),
    "profiles import": (
        "a3gnn profiles import rows.jsonl.gz",
        "a3gnn profiles import rows.jsonl.gz --store shared.sqlite",
    ),
    "surrogate card": (
        "a3gnn surrogate card > card.md",
        "a3gnn surrogate card --store runs/mine/profiles.sqlite --json",
    ),
    "explore": ("a3gnn explore --platform u250", "a3gnn explore --platform u250 --dataset graph.npz --algorithms"),
    "accelerator generate": (
        "a3gnn accelerator generate --units 8 --multipliers 64 --out hls",
        "a3gnn accelerator generate --units 2 --multipliers 16 --out hls --check",
    ),
    "cache info": ("a3gnn cache info", "a3gnn cache info --json"),
    "cache clean": ("a3gnn cache clean --older-than 30d --dry-run", "a3gnn cache clean --downloads"),
    "machines": ("a3gnn machines --ray-address head:6379", "a3gnn machines --here"),
    "doctor": ("a3gnn doctor", "a3gnn doctor --dataset graph.npz --json"),
    "schema": ("a3gnn schema tune", "a3gnn schema graph info"),
    "mcp": ("a3gnn mcp --data-root .", "a3gnn mcp --data-root graphs"),
}


class Command(click.Command):
    """A command whose help has the groups and examples of its name."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for param in self.params:
            if isinstance(param, click.Option) and not param.is_flag and param.metavar is None:
                param.metavar = _number(param.type)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; its own errors about options stand below the usage, as click's do."""
        try:
            return super().invoke(ctx)
        except UsageError:
            say_usage(ctx)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in their groups, and then the examples."""
        name = full_name(ctx)
        records = {key(param): record for param in options_of(self, ctx) if (record := param.get_help_record(ctx))}
        groups = GROUPS.get(name, (("Options", tuple(records)),))
        for heading, names in groups:
            if own := [records[one] for one in names if one in records]:
                with formatter.section(heading):
                    formatter.write_dl(own)
        if examples := EXAMPLES.get(name):
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in examples))


def options_of(command: click.Command, ctx: click.Context) -> list[click.Option]:
    """Returns the options of the command, --help among them."""
    return [param for param in command.get_params(ctx) if isinstance(param, click.Option)]


def key(option: click.Option) -> str:
    """Returns the option's name in `GROUPS`; click's versions name --help differently, and switches share a name."""
    if isinstance(option.flag_value, str):
        return option.opts[0].removeprefix("--").replace("-", "_")
    return "help" if "--help" in option.opts else option.name or ""


def full_name(ctx: click.Context) -> str:
    """Returns the words after `a3gnn` that name the command, such as `graph convert`."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(names)


def _number(kind: click.ParamType[Any]) -> str | None:
    """Returns how help shows a number; None for other types."""
    if isinstance(kind, click.types.IntParamType):
        return "N"
    return "X" if isinstance(kind, click.types.FloatParamType) else None
