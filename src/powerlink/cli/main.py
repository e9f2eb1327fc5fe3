"""The `powerlink` command."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from powerlink.cli.console import StoppedError, errors
from powerlink.errors import PowerlinkError
from powerlink.report.wording import harmless

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer uses it without naming it
INTERRUPTED = 130  # what shells expect after Ctrl-C

# One module each, and how its help begins: the list of all needs none of them.
COMMANDS = {
    "demo": "Train on a small world atlas, explain five held-out predictions it ranks first, and write a report.",
    "datasets": "List the knowledge graphs known by name, and where they are.",
    "presets": "List the paper's models, ready to be trained with `powerlink train --preset`.",
    "train": "Train a link-prediction model and save it as a folder.",
    "rank": "Rank held-out facts: filtered MRR and Hits@1/3/10, heads and tails, ties at their mean.",
    "predict": "Complete (head, relation, ?) or (?, relation, tail).",
    "explainers": "List the explainers, what they propose and what they need, or the settings of one.",
    "fit": "Fit an explainer on many queries of a model, once, so that it explains others in one pass.",
    "explain": "Explain predictions by the facts that carry them, each proven on the model.",
    "compare": "Compare explainers on the same queries: fidelity, sparsity, HΔR, logit drops, time, and shared paths.",
    "truth": "Hold explanations against known reasons: how early does a right path come?",
    "evaluate": "Summarise explanations: F+, F−, Sparsity and HΔR:m, in the paper's protocol and in ours.",
    "report": "Write one self-contained HTML page: cards, drawings, scores with and without, settings.",
}


@cache
def command(name: str) -> Any:
    """Load a command: its flags, and what it does."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name)(getattr(import_module(f"powerlink.cli.{name}"), name))
    return typer.main.get_command(alone)


class _Commands(TyperGroup):
    """Commands that are loaded when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and command(name or ""), rest


app = typer.Typer(
    name="powerlink",
    cls=_Commands,
    help="Why does this model believe (head, relation, tail)? Proven path explanations for knowledge-graph completion.",
    epilog="Start with: powerlink demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _name, _line in COMMANDS.items():
    app.command(_name, help=_line)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("powerlink"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Why does this model believe (head, relation, tail)?"""


def main() -> None:
    """Run the command line; whatever the user can mend is told in one sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        code = app(prog_name="powerlink", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _refuse_usage(error)
    except PowerlinkError as error:
        _stop(str(error))
    except StoppedError as stopped:
        _stop(f"stopped; {stopped}", code=INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has gone (`| head`)
        _abandon_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _abandon_output()  # most likely that is what could not be written
        where = f"{error.filename}: " if error.filename is not None else "reading or writing failed: "
        _stop(f"{where}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        from powerlink.memory import ran_out_of_memory

        if not ran_out_of_memory(error):
            raise
        _stop("there is not enough memory: smaller settings, as --dim or --batch-size of train, need less")
    if code == INTERRUPTED:
        _stop("stopped", code=INTERRUPTED)
    sys.exit(code)


def _refuse_usage(error: Any) -> NoReturn:
    """Tell a flag or argument that cannot be used; no arguments at all are a wish for help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(error.exit_code)
    message = " ".join(error.format_message().split()).removesuffix(".")
    command = error.ctx.command_path if error.ctx else "powerlink"
    _stop(f"{message[:1].lower()}{message[1:]}; see {command} --help", code=error.exit_code)


def _stop(sentence: str, code: int = 1) -> NoReturn:
    errors.print(f"powerlink: {harmless(sentence)}", soft_wrap=True)
    sys.exit(code)


def _abandon_output() -> None:
    """Give the interpreter somewhere harmless to flush to when it ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
