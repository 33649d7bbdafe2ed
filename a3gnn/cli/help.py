"""`Command`: a command whose help lists its options in groups, the common ones first, and ends with examples."""

from __future__ import annotations

import click

#: Groups of options by command: a heading, and the options in order. Others follow under "Other options".
GROUPS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "tune": (
        ("Common options", ("dataset", "memory_limit", "budget", "priority", "out", "resume", "verbose", "quiet")),
        ("Model", ("model", "layers", "fanouts", "hidden", "norm", "residual", "lr_schedule", "lr_epochs", "loss")),
        (
            "Accuracy",
            (
                "max_accuracy_drop",
                "target_accuracy",
                "metric",
                "class_weights",
                "accuracy_epochs",
                "split",
                "split_seed",
            ),
        ),
        ("Search", ("fix", "ranges", "engine", "seed", "store", "host_memory_limit")),
        ("Elsewhere", ("server", "token", "executor", "ray_address", "machines")),
    ),
    "recommend": (
        ("Common options", ("dataset", "memory_limit", "priority", "out", "quiet")),
        ("Model", ("model", "layers", "fanouts", "hidden", "norm", "residual", "lr_schedule", "lr_epochs", "loss")),
        ("Accuracy", ("max_accuracy_drop", "metric", "class_weights", "split", "split_seed")),
        ("Search", ("fix", "ranges", "seed", "store", "host_memory_limit")),
    ),
    "train": (
        ("Common options", ("epochs", "patience", "until_target", "out", "resume", "dataset", "quiet")),
        (
            "Model",
            ("path", "model", "layers", "fanouts", "norm", "residual", "lr_schedule", "lr_epochs", "loss", "seed"),
        ),
        ("Accuracy", ("target_accuracy", "metric", "class_weights", "split", "split_seed")),
        ("Memory", ("host_memory_limit", "adapt")),
        ("Several processes", ("ranks", "algorithm")),
        (
            "Several trainers in one process",
            ("trainers", "trainer_shares", "trainer_sampling", "trainer_stall", "prefetch"),
        ),
    ),
}
#: Two examples for each command.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "tune": (
        "a3gnn tune --dataset graph.npz --memory-limit 4GiB --budget 10min --out runs/mine",
        "a3gnn tune --dataset pyg:Cora --model gcn --priority memory",
    ),
    "recommend": (
        "a3gnn recommend --dataset graph.npz --memory-limit 4GiB",
        "a3gnn recommend --dataset graph.npz --priority memory --out runs/predicted",
    ),
    "train": (
        "a3gnn train runs/mine --out runs/trained",
        "a3gnn train --model gcn --dataset graph.npz --epochs 20",
    ),
    "predict": (
        "a3gnn predict runs/trained --dataset graph.npz --out predictions.npy",
        "a3gnn predict runs/trained --out predictions.npy",
    ),
    "front": ("a3gnn front runs/mine", "a3gnn front runs/mine --all"),
    "pick": (
        "a3gnn pick runs/mine --priority memory",
        "a3gnn pick runs/mine --max-memory 2GiB --max-accuracy-drop 0.5",
    ),
    "compare": ("a3gnn compare runs/a runs/b", "a3gnn compare runs/a runs/b --json"),
    "export": (
        "a3gnn export runs/mine --optuna sqlite:///optuna.db",
        "a3gnn export runs/mine --optuna sqlite:///optuna.db --replace",
    ),
    "report": ("a3gnn report runs/mine", "a3gnn report runs/mine --out mine.html"),
    "serve": ("a3gnn serve --data-root graphs", "a3gnn serve --host 0.0.0.0 --token SECRET"),
}


class Command(click.Command):
    """A command whose help has the groups and examples of its name."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in their groups, and then the examples."""
        records = {
            param.name: record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None
        }
        groups = GROUPS.get(self.name or "", ())
        for heading, names in groups:
            if own := [records.pop(name) for name in names if name in records]:
                with formatter.section(heading):
                    formatter.write_dl(own)
        with formatter.section("Other options" if groups else "Options"):
            formatter.write_dl(list(records.values()))
        if examples := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write_text(line)
