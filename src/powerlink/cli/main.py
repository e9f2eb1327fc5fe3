"""The `powerlink` command."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from powerlink.cli import (
    compare,
    datasets,
    demo,
    evaluate,
    explain,
    explainers,
    fit,
    predict,
    presets,
    rank,
    report,
    train,
    truth,
)
from powerlink.cli.console import StoppedError, errors
from powerlink.errors import PowerlinkError
from powerlink.memory import ran_out_of_memory
from powerlink.report.wording import harmless

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer uses it without naming it
INTERRUPTED = 130  # what shells expect after Ctrl-C

app = typer.Typer(
    name="powerlink",
    help="Why does this model believe (head, relation, tail)? Proven path explanations for knowledge-graph completion.",
    epilog="Start with: powerlink demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (demo, datasets, presets, train, rank, predict, explainers, fit, explain, compare, truth, evaluate, report)
for command in COMMANDS:
    name = command.__name__.rsplit(".", 1)[-1]
    app.command(name)(getattr(command, name))


def _print_version(wanted: bool) -> None:
    if wanted:
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
