"""The `powerlink` command."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from powerlink.cli import datasets, demo, evaluate, explain, predict, rank, report, train
from powerlink.cli.console import errors
from powerlink.errors import PowerlinkError
from powerlink.report.wording import harmless

app = typer.Typer(
    name="powerlink",
    help="Why does this model believe (head, relation, tail)? Proven path explanations for knowledge-graph completion.",
    epilog="Start with: powerlink demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (demo, datasets, train, rank, predict, explain, evaluate, report):
    name = command.__name__.rsplit(".", 1)[-1]
    app.command(name)(getattr(command, name))


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    """Why does this model believe (head, relation, tail)?"""
    if version:
        from importlib.metadata import version as installed  # noqa: PLC0415

        typer.echo(installed("powerlink"))
        raise typer.Exit


def main() -> None:
    """Run the command line; whatever the user can mend is told in one sentence."""
    try:
        app()
    except PowerlinkError as error:
        _stop(str(error))
    except BrokenPipeError:
        # whoever read the output has gone (`| head`); give the interpreter somewhere harmless to flush to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        where = f" {error.filename}" if error.filename else ""
        _stop(f"cannot write{where}: {error.strerror}")


def _stop(sentence: str) -> None:
    errors.print(f"powerlink: {harmless(sentence)}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)
