"""``sojourn campaign …``: a live walk from the command line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from sojourn import learning
from sojourn.campaign import Advice, Campaign
from sojourn.campaign.rehearse import rehearse as play
from sojourn.campaign.rehearse import verdict
from sojourn.cli.output import console, json_option, print_json
from sojourn.cli.sites import open_site
from sojourn.errors import ArgumentError, RequestError
from sojourn.plots.svg import number

HOME = {True: ", home", False: ", not home", None: ""}
FIELD_STRATEGIES = ("lookahead", "uniform", "frank-wolfe", "lawnmower")

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_out = click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
_note = click.option("--note", default="", help="A remark to keep with it.")
# A measurement such as -3.2 is a value, not an option.
_values = {"ignore_unknown_options": True}


def _goals(command: Any) -> Any:
    for option in (
        click.option("--budget", type=int, help="The total number of steps."),
        click.option("--precision", type=float, help="Stop at this standard error."),
        click.option("--of", default="every", show_default=True,
                     help="Precision of 'every' site or on 'average'."),
        click.option("--worth", type=float,
                     help="Stop when steps lower the error by less than this share."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def campaign() -> None:
    """A live walk: new, then next and tell in turn; status, report and export at any time.

    FILE is the campaign; it survives power cuts, and every command can be given again.
    """


@campaign.command()
@_file
@click.argument("site")
@_goals
@click.option("--start", help="Where the device is put in (else the site's start, or home).")
@click.option("--home", help="Where it must be in the end (else as the site file says).")
@click.option(
    "--strategy",
    default="lookahead",
    show_default=True,
    help=f"One of {', '.join(FIELD_STRATEGIES)}.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the strategy's draws.")
@_note
@json_option
def new(  # noqa: PLR0913, RUF100
    file: Path, site: str, budget: int | None, precision: float | None, of: str,
    worth: float | None, start: str | None, home: str | None, strategy: str, seed: int,
    note: str, as_json: bool,
) -> None:  # fmt: skip
    """Begin a campaign on SITE in a new FILE."""
    with Campaign.create(
        file, open_site(site), named_strategy(strategy), budget, seed, precision=precision, of=of,
        worth=worth, start=start, home=home, note=note,
    ) as c:  # fmt: skip
        if as_json:
            print_json(c.status())
            return
        out = console()
        out.print(f"{file}: a campaign on {c.site.title!r} with {c.site.mdp.n_states} sites",
                  markup=False, soft_wrap=True)  # fmt: skip
        out.print(f"The device starts at {c.status()['location']}. "
                  f"Now: sojourn campaign next {file}", markup=False, soft_wrap=True)  # fmt: skip


def named_strategy(name: str) -> Any:
    """The strategy of a name on the command line."""
    made = {
        "lookahead": "Lookahead", "uniform": "Uniform", "frank-wolfe": "FrankWolfe",
        "lawnmower": "Lawnmower",
    }  # fmt: skip
    if name not in made:
        raise ArgumentError(
            f"there is no strategy {name!r}", f"use one of {', '.join(FIELD_STRATEGIES)}"
        )
    return getattr(learning, made[name])()


@campaign.command()
@_file
@json_option
def next(file: Path, as_json: bool) -> None:
    """Where to go now. Asking again before telling gives the same advice."""
    with Campaign.open(file) as c:
        advice = c.ask()
        if as_json:
            print_json(asdict(advice))
        else:
            _print_advice(advice, file)


def _print_advice(advice: Advice, file: Path) -> None:
    out = console()
    if advice.stop:
        out.print(Text.assemble(("Finished: ", "bold"), advice.reason))
        return
    # Names come from files: they are text, never markup.
    out.print(Text(f"step {advice.step}: {advice.action} → {advice.site}", style="bold"))
    out.print(f"  {advice.reason}", markup=False)
    at = "" if advice.probability == 1.0 else " --at SITE"
    out.print(f"  then: sojourn campaign tell {file} VALUE{at}", markup=False, soft_wrap=True)


@campaign.command(context_settings=_values)
@_file
@click.argument("value", nargs=-1)
@click.option("--at", help="The site where the device really is (needed where that is uncertain).")
@click.option("--lost", is_flag=True, help="The move was made but there is no value.")
@click.option("--extra", is_flag=True, help="Data taken out of plan: no move, no step.")
@_note
@json_option
def tell(
    file: Path, value: tuple[str, ...], at: str | None, lost: bool, extra: bool, note: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Record one VALUE or several; prints the event's id, by which it can be corrected."""
    if bool(value) == lost:
        raise RequestError(
            "a value is missing" if not value else "--lost and a value contradict each other",
            "give the value that was measured, or --lost if there is none",
        )
    with Campaign.open(file) as c:
        asked = c.ledger.outstanding
        event = c.tell(_numbers(value) or None, state=at, extra=extra, note=note)
        said = f"recorded as event {event}: {_recorded(c, event, extra)}"
        where = c.ledger.samples[event].state
        if asked is not None and not extra and where not in c.ledger.outcomes(asked[1].pair):
            said += (
                "\n  the advised move could not end there: it counts as a detour (a slip of the "
                f"pen? sojourn campaign void {file} {event} --reason typo, then place the device)"
            )
        if asked is None and not extra:
            said += "\n  no advice was open, so it counts as a step of its own" + (
                f" (entered twice? sojourn campaign void {file} {event} --reason twice)"
                if value else ""
            )  # fmt: skip
        _done(c, event, said, as_json)


def _recorded(c: Campaign, event: int, extra: bool) -> str:
    """What a tell was understood as."""
    sample = c.ledger.samples[event]
    unit = f" {c.site.unit}" if c.site.unit else ""
    what = " ".join(f"{x:.12g}" for x in sample.values) + unit if sample.values else "lost"
    of = "" if c.budget is None else f" of {c.budget}"
    when = "out of plan" if extra else f"step {c.steps}{of}"
    return f"{what} at {c.site.names[sample.state]}, {when}"


def _numbers(texts: tuple[str, ...]) -> list[float]:
    numbers = []
    for text in texts:
        if text.startswith("--"):
            raise RequestError(f"there is no option {text!r}", "--help lists them all")
        try:
            numbers.append(float(text.replace(",", ".")))
        except ValueError:
            raise RequestError(
                f"{text!r} is not a number", "write numbers such as 3.7, separated by spaces"
            ) from None
    return numbers


@campaign.command()
@_file
@json_option
def status(file: Path, as_json: bool) -> None:
    """What is done, what is known, what is next."""
    with Campaign.open(file, readonly=True) as c:
        state = c.status()
        if as_json:
            print_json(state)
            return
        out = console()
        of = "" if state["budget"] is None else f" of {state['budget']}"
        unit = f" {c.site.unit}" if c.site.unit else ""
        out.print(f"{state['title']}: {state['steps']}{of} steps, {state['samples']} values, "
                  f"{state['sites_measured']} of {state['sites']} sites measured",
                  markup=False)  # fmt: skip
        out.print(
            f"  the device is at {state['location']}"
            + ("" if state["home"] is None else f", its home is {state['home']}"),
            markup=False,
        )
        for sentence in _goals_of(state["goal"], unit):
            out.print(f"  it ends {sentence}", markup=False)
        if state["mean_error"] is not None:
            out.print(f"  average error ±{number(state['mean_error'])}{unit}", markup=False)
        if state["least_certain_error"] is not None:
            out.print(f"  least certain: {state['least_certain']}, "
                      f"±{number(state['least_certain_error'])}{unit}", markup=False)  # fmt: skip
        if state["stop"]:
            out.print(f"  finished: {state['stop']}", markup=False)
        elif state["outstanding"]:
            advice = c.pending()
            assert advice is not None
            out.print(f"  an advice waits for its value: {advice.action} → {advice.site}",
                      markup=False)  # fmt: skip
        else:
            out.print(f"  next: sojourn campaign next {file}", markup=False, soft_wrap=True)


def _goals_of(goal: dict[str, Any], unit: str) -> list[str]:
    """When a campaign ends before its budget."""
    said = []
    if "precision" in goal:
        where = "at every site" if goal["of"] == "every" else "on average"
        said.append(f"at ±{number(goal['precision'])}{unit} {where}")
    if "worth" in goal:
        share = f"{100 * goal['worth']:.3g} %"
        said.append(f"when a tenth more steps could lower the error by less than {share}")
    return said


@campaign.command(context_settings=_values)
@_file
@click.argument("event", type=int)
@click.argument("value", nargs=-1, required=True)
@_note
@json_option
def correct(file: Path, event: int, value: tuple[str, ...], note: str, as_json: bool) -> None:
    """The value of EVENT was in truth VALUE. History keeps both."""
    with Campaign.open(file) as c:
        recorded = c.correct(event, _numbers(value), note=note)
        _done(c, recorded, f"event {event} corrected (event {recorded})", as_json)


@campaign.command()
@_file
@click.argument("event", type=int)
@click.option("--reason", required=True, help="Why the value does not count.")
@json_option
def void(file: Path, event: int, reason: str, as_json: bool) -> None:
    """The value of EVENT does not count."""
    with Campaign.open(file) as c:
        recorded = c.void(event, reason)
        _done(c, recorded, f"event {event} voided (event {recorded})", as_json)


@campaign.command()
@_file
@click.argument("site")
@_note
@json_option
def place(file: Path, site: str, note: str, as_json: bool) -> None:
    """The device was carried to SITE; costs no step."""
    with Campaign.open(file) as c:
        recorded = c.place(site, note=note)
        _done(c, recorded, f"the device is at {site} (event {recorded})", as_json)


@campaign.command()
@_file
@_goals
@_note
@json_option
def extend(
    file: Path, budget: int | None, precision: float | None, of: str, worth: float | None,
    note: str, as_json: bool,
) -> None:  # fmt: skip
    """Change the budget (the total) or the goal."""
    with Campaign.open(file) as c:
        recorded = c.extend(budget, precision=precision, of=of, worth=worth, note=note)
        _done(c, recorded, f"{c!r} (event {recorded})", as_json)


def _done(c: Campaign, event: int, sentence: str, as_json: bool) -> None:
    """Say what was recorded."""
    if as_json:
        print_json({"event": event} | c.status())
    else:
        console().print(sentence, markup=False, soft_wrap=True)


@campaign.command()
@_file
@_out
@json_option
def report(file: Path, out: Path, as_json: bool) -> None:
    """Write the report: one HTML file that opens anywhere, offline."""
    with Campaign.open(file, readonly=True) as c:
        _wrote(c.report(out), as_json)


@campaign.command()
@_file
@_out
@json_option
def export(file: Path, out: Path, as_json: bool) -> None:
    """Write the estimates as .csv, .parquet or .geojson."""
    with Campaign.open(file, readonly=True) as c:
        _wrote(c.export(out), as_json)


def _wrote(path: Path, as_json: bool) -> None:
    if as_json:
        print_json({"wrote": str(path), "bytes": path.stat().st_size})
    else:
        console().print(f"wrote {path}", markup=False, soft_wrap=True)


@campaign.command()
@_file
@json_option
def log(file: Path, as_json: bool) -> None:
    """The whole history, event by event."""
    import msgspec

    with Campaign.open(file, readonly=True) as c:
        events = [{"id": n, "at": at} | msgspec.to_builtins(event) for n, at, event in c.events()]
        if as_json:
            print_json({"events": events})
            return
        out = console()
        for event in events:
            shown = {k: v for k, v in event.items() if k not in ("id", "at", "kind")}
            for key in ("state", "start", "home"):
                if isinstance(shown.get(key), int):
                    shown[key] = c.site.names[shown[key]]
            if "pair" in shown:
                shown["action"] = c.site.mdp.action_label(shown.pop("pair"))
            if "values" in shown:
                shown["values"] = " ".join(f"{x:g}" for x in shown["values"]) or "lost"
            rest = {k: v for k, v in shown.items() if v not in (None, "", {}, [])}
            text = ", ".join(f"{k} {v}" for k, v in rest.items())
            out.print(f"{event['id']:>6} {event['at'][:19]} {event['kind']:<9} {text}",
                      markup=False, soft_wrap=True)  # fmt: skip


@campaign.command()
@click.argument("site")
@click.option("--budget", type=int, required=True, help="Steps to rehearse.")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the campaign in this file.",
)
@click.option(
    "--report",
    "report_to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report here.",
)
@click.option(
    "--strategy",
    default="lookahead",
    show_default=True,
    help=f"One of {', '.join(FIELD_STRATEGIES)}.",
)
@click.option("--seed", default=0, show_default=True, help="Another truth.")
@json_option
def rehearse(
    site: str, budget: int, file: Path | None, report_to: Path | None, strategy: str, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Play a whole campaign on SITE with an invented truth, to practise."""
    import tempfile

    from rich.progress import Progress

    with tempfile.TemporaryDirectory() as folder, Progress(transient=True, disable=as_json) as bar:
        task = bar.add_task("rehearsing", total=budget)
        c, truth = play(
            file or Path(folder) / "rehearsal", open_site(site), budget, named_strategy(strategy),
            seed, on_step=lambda _: bar.advance(task),
        )  # fmt: skip
        with c:
            record = c.status() | verdict(c, truth)
            if report_to is not None:
                c.report(report_to)
    if as_json:
        print_json(record)
        return
    out = console()
    unit = f" {c.site.unit}" if c.site.unit else ""
    out.print(f"{record['steps']} steps, {record['sites_measured']} of {record['sites']} sites "
              "measured" + HOME[record["at_home"]])  # fmt: skip
    thought = record["mean_error"]
    off = f"±{number(record['true_error'])}{unit}"
    out.print(f"  the map is off by {off} on average over all sites "
              + ("(the average of the rest is shown where nothing was measured)" if thought is None
                 else f"(the campaign expects ±{number(thought)})"), markup=False)  # fmt: skip
    out.print(f"  intervals that hold the truth: {100 * record['covered']:.0f} % (of "
              f"{record['intervals']}, at 95 %)")  # fmt: skip
    if report_to is not None:
        out.print(f"  report: {report_to}", markup=False, soft_wrap=True)
