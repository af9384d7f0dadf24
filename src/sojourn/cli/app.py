"""The root of the command line: lazy commands, errors as sentences, exit codes.

Exit codes: 0, it worked; 1, it failed; 2, it was asked wrongly.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from sojourn._version import __version__
from sojourn.cli.commands import COMMANDS
from sojourn.errors import SojournError


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            close = get_close_matches(args[0], COMMANDS)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"There is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="sojourn %(version)s")
def root() -> None:
    """Decide where a measuring agent should go next when every sample costs a step of travel.

    A SITE is a site file (.toml), a map on its own (.txt: '.' site, '#' blocked; .csv, .parquet,
    .graphml, .geojson), the bundled harbour, an example such as grid_survey or garnet:10,3,2, or
    the id of a tabular gymnasium environment.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the value is the exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _remark
        return _run(arguments)


def _remark(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence for people, without the line of our code that gave it."""
    click.echo(f"note: {message}", err=True)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = root.main(args=arguments, prog_name="sojourn", standalone_mode=False)
    except SojournError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {where}{error.strerror or error}", err=True)
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 1
    return code if isinstance(code, int) else 0
