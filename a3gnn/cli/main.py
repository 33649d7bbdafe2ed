"""`a3gnn`: runs a command, and turns its exceptions into messages and exit codes."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import warnings

import click

from a3gnn._imports import need_linux
from a3gnn.cli.output import say, say_error, say_usage
from a3gnn.errors import A3GNNError, ExitCode, UsageError, nearest
from a3gnn.launch import by_torchrun, launch
from a3gnn.option_names import as_flags, name_as_typed, option
from a3gnn.threads import wait_policy
from a3gnn.threads.ending import end
from a3gnn.version import PURPOSE, __version__

#: Commands with their module, and their line in `a3gnn --help`, which is here so that help imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "tune": ("a3gnn.cli.tune", "Find the best training configuration for a graph."),
    "recommend": ("a3gnn.cli.recommend", "Predict the best configuration in seconds, without a trial."),
    "train": ("a3gnn.cli.train", "Train with the configuration of tune or recommend."),
    "report": ("a3gnn.cli.report", "Write a tune as one HTML page."),
    "status": ("a3gnn.cli.status", "Show how far a running tune is."),
    "stop": ("a3gnn.cli.status", "Stop a running tune with the best configuration so far."),
    "front": ("a3gnn.cli.front", "Show the Pareto front of a tune."),
    "pick": ("a3gnn.cli.pick", "Pick another configuration of a tune, by priority or limits."),
    "compare": ("a3gnn.cli.compare", "Compare two or more tunes."),
    "pull": ("a3gnn.cli.pull", "Copy a study of a server to a folder."),
    "predict": ("a3gnn.cli.predict", "Predict the nodes of a graph with a trained model."),
    "export": ("a3gnn.cli.export", "Write the trials of a tune to an Optuna storage."),
    "graph": ("a3gnn.cli.graph", "Convert, describe or verify a graph."),
    "profile": ("a3gnn.cli.profile", "Measure many configurations and store the results."),
    "profiles": ("a3gnn.cli.profiles", "List, check, export or import measurements."),
    "surrogate": ("a3gnn.cli.surrogate", "Score the predictions on held-out measurements."),
    "cache": ("a3gnn.cli.cache", "Show or empty the folder of copied graphs and probes."),
    "doctor": ("a3gnn.cli.doctor", "Show this machine's hardware and missing packages."),
    "schema": ("a3gnn.cli.schema", "Print the JSON schema of a command's answer."),
    "mcp": ("a3gnn.cli.mcp", "Serve six tools to a coding agent over MCP."),
    "serve": ("a3gnn.cli.serve", "Serve tunes over HTTP: start, watch, stop, resume."),
    "parts": ("a3gnn.cli.parts", "Cut a graph into parts, and serve them from several machines."),
    "machines": ("a3gnn.cli.machines", "List the machines of a Ray cluster that can run trials."),
    "explore": ("a3gnn.cli.explore", "Choose an accelerator design for an FPGA platform with a model."),
    "accelerator": ("a3gnn.cli.accelerator", "Generate an FPGA accelerator: HLS C++ and OpenCL C."),
}
#: Sections of `a3gnn --help`: a heading, and its commands.
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start here", ("tune", "recommend", "train", "report")),
    ("Results", ("status", "stop", "front", "pick", "compare", "pull", "predict", "export")),
    ("Graphs and measurements", ("graph", "profile", "profiles", "surrogate", "cache", "doctor")),
    ("Programs", ("schema", "mcp")),
    ("Several machines", ("serve", "parts", "machines")),
    ("FPGAs (simulated)", ("explore", "accelerator")),
)

#: Names of options by which other programs choose a device.
_DEVICES = ("gpu", "gpus", "use-gpu", "cuda", "device", "devices", "cpu", "no-cuda")
#: The shell sets this variable while it completes a command line.
_COMPLETE = "_A3GNN_COMPLETE"


class Commands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the commands' names, ordered as users need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command; the error for an unknown name suggests the nearest one."""
        if cmd_name not in COMMANDS:
            near = nearest(cmd_name, COMMANDS) or "; a3gnn --help lists the commands"
            raise click.UsageError(f"no such command {cmd_name!r}{near}", ctx)
        if cmd_name != "doctor":  # it reports the system
            need_linux()
        started = launch() if cmd_name != "train" and by_torchrun() else None
        if started is not None:
            raise UsageError(
                f"torchrun must run a3gnn train, got {cmd_name} in {started.size} processes, which would each do the "
                f"whole work; run a3gnn {cmd_name} without torchrun"
            )
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command, and makes errors name its options as they are spelled in `args`."""
        name, command, words = super().resolve_command(ctx, args)
        if command is not None:
            long: dict[str, list[str]] = {}
            for one in command.params:
                long.setdefault(one.name or "", []).extend(flag for flag in one.opts if flag.startswith("--"))
            name_as_typed({name: flags for name, flags in long.items() if name}, words, name or "")
        return name, command, words

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands in their sections; all lines begin at one column."""
        first = max(map(len, COMMANDS))
        for heading, names in SECTIONS:
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{first}}", COMMANDS[name][1]) for name in names])


@click.group(
    cls=Commands,
    help=PURPOSE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="a3gnn COMMAND --help shows options and examples. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no "
    "configuration keeps the limits, 130 interrupted.",
)
@click.version_option(__version__, prog_name="a3gnn")
def app() -> None:
    """Runs one of `COMMANDS`."""


def main(arguments: list[str] | None = None) -> None:
    """Runs `a3gnn` and exits; results go to stdout, everything else to stderr."""
    wait_policy.adopt()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # prints undecodable bytes of paths unchanged
    signal.signal(signal.SIGTERM, _interrupt)
    if _COMPLETE in os.environ:
        from a3gnn.cli.completion import install

        install()
    warnings.showwarning = lambda message, *_: say(str(message))
    with as_flags():
        code = _run(arguments)
    end(code, at_once=by_torchrun())


def _run(arguments: list[str] | None) -> int:
    """Runs the command, prints errors, and returns the exit code."""
    name_as_typed({}, sys.argv[1:] if arguments is None else arguments)  # for errors before a command is known
    try:
        return int(app.main(args=arguments, prog_name="a3gnn", standalone_mode=False) or 0)
    except click.Abort as abort:  # click raises this in place of KeyboardInterrupt, its cause
        cause = str(abort.__cause__ or "")
        say_error("interrupted", f"interrupted{': ' if cause else ''}{cause}")
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        _show(error)
        return ExitCode.USAGE
    except A3GNNError as error:
        say_error(error.code, str(error))
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of stdout has gone, so nobody reads a message
        return ExitCode.FAILED
    except OSError as error:  # for example a full disk, or a read-only folder
        say_error(A3GNNError.code, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return ExitCode.FAILED


def _show(error: click.ClickException) -> None:
    """Prints click's error in the format of all others, below the usage of its command."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        say_usage(context)
    message = error.format_message()
    if type(error) is click.BadParameter and isinstance(error.param, click.Option) and error.param.name:
        flag = option(error.param.name)
        message = error.message if error.message.startswith(f"{flag} ") else f"{flag}: {error.message}"
    if isinstance(error, click.NoSuchOption) and error.option_name.strip("-") in _DEVICES:
        message = f"{error.message.rstrip('.')}; a3gnn uses a GPU if torch finds one, and a3gnn doctor shows it"
    say_error(UsageError.code, f"{message[:1].lower()}{message[1:]}")


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt(f"by signal {signum}")
