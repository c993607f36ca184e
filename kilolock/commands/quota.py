"""``kl quota``: limits of states, environments and workspaces, and plans held against them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click

from kilolock import planfile
from kilolock.console import act, ask, connection_options, format_option, say, show, state_of, tell
from kilolock.discovery import SourceError, Target
from kilolock.errors import BAD_INPUT
from kilolock.files import old_file
from kilolock.output import Answer, Column
from kilolock.quotas import check_plan, judge

_PLAN_MAJOR_VERSIONS = ("0", "1")

_LIST = """
    select u.scope, u.workspace, u.environment, u.state, u.measure, u.used, u.soft_limit,
           u.hard_limit, u.remaining, u.status
    from kilolock.quota_usage u
    where u.quota_id is not null and coalesce(u.soft_limit, u.hard_limit) is not null
    order by u.workspace, u.environment nulls first, u.state nulls first, u.measure desc"""

_REMAINING = """
    select u.scope, coalesce(u.state, u.environment, u.workspace) as name, u.measure, u.used,
           u.soft_limit, u.hard_limit, u.remaining, u.status
    from kilolock.quota_usage u
    where u.workspace = coalesce(($1)[2], 'ws_default')
      and (u.environment = coalesce(($1)[3], 'env_default') or u.environment is null)
      and (u.state = ($1)[1] or u.state is null)
      and (u.measure = 'resources' or coalesce(u.soft_limit, u.hard_limit) is not null)
    order by u.measure desc, u.scope = 'state' desc, u.scope"""

_CHECKED = {
    "scope": "text",
    "name": "text",
    "measure": "text",
    "used": "bigint",
    "projected": "bigint",
    "soft_limit": "bigint",
    "hard_limit": "bigint",
    "verdict": "text",
}


def _limit(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """A whole number, or the word none: None is an option that was not given."""
    if value is None or value == "none":
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise click.BadParameter(f"{value!r} is neither a whole number nor none.", ctx, param)
    return int(value)


@click.group(no_args_is_help=True)
def quota() -> None:
    """Limit what states hold, and learn whether a plan fits before anything is built.

    Limits are of managed resources and of bytes of state documents. Over a soft limit kl warns;
    over a hard limit no write is taken that adds to it. All limits that apply to a state hold: its
    own, its environment's, its workspace's.

    \b
    Example:
        kl quota remaining
        terraform plan -out=plan.tfplan
        kl quota check --tf-plan plan.tfplan
    """


@quota.command("set")
@click.option("--state", metavar="STATE", help="Limit this state; by default this directory's.")
@click.option("--environment", metavar="ENV", help="Limit the total of an environment.")
@click.option("--workspace", metavar="WS", help="Limit the total of a workspace.")
@click.option(
    "--resources-soft", metavar="N|none", callback=_limit, help="Managed resources to warn beyond."
)
@click.option(
    "--resources-hard",
    metavar="N|none",
    callback=_limit,
    help="Managed resources to refuse beyond.",
)
@click.option(
    "--bytes-soft", metavar="N|none", callback=_limit, help="Bytes of state to warn beyond."
)
@click.option(
    "--bytes-hard", metavar="N|none", callback=_limit, help="Bytes of state to refuse beyond."
)
@connection_options
def set_(
    state: str | None,
    environment: str | None,
    workspace: str | None,
    target: Target,
    **options: int | str | None,
) -> None:
    """Set limits of a state, an environment or a workspace; none removes one.

    Limits that are not given stay as they are. One may lie below what there is already: then
    nothing may be added until enough is gone.

    \b
    Examples:
        kl quota set --resources-soft 200 --resources-hard 250
        kl quota set --environment env_default --resources-hard 1000
        kl quota set --state prod --resources-hard none
    """
    limits = {name: None if n == "none" else n for name, n in options.items() if n is not None}
    if not limits:
        raise click.UsageError("give a limit, such as --resources-hard 100.")
    named = {"state": state, "environment": environment, "workspace": workspace}
    given = {scope: name for scope, name in named.items() if name is not None}
    if len(given) > 1:
        raise click.UsageError("give one of --state, --environment and --workspace.")
    scope, name = given.popitem() if given else ("state", state_of(target, None))
    # A state is named with its environment, which act adds.
    address = {} if scope == "state" else {scope: name}
    own = name if scope == "state" else None
    done = act(target, "quotas/set", own, scope=scope, limits=limits, **address)
    for warning in done["warnings"]:
        tell(f"Warning: {warning}")
    shown = [f"{k.replace('_', ' ')} {v}" for k, v in done["limits"].items() if v is not None]
    say(f'{done["scope"]} "{done["name"]}": {", ".join(shown) or "no limits"}')


@quota.command("list")
@format_option
@connection_options
def list_(fmt: str, target: Target) -> None:
    """List all limits, and what is used of them.

    \b
    Example:
        kl quota list --format json
    """
    show(ask(target, _LIST), fmt)


@quota.command()
@click.argument("state", required=False)
@format_option
@connection_options
def remaining(state: str | None, fmt: str, target: Target) -> None:
    """Show what the limits leave to STATE, its environment and its workspace.

    STATE is this directory's unless named.

    \b
    Example:
        kl quota remaining
    """
    name = state_of(target, state)
    answer = ask(target, _REMAINING, (name, target.workspace, target.environment))
    show(answer, fmt)
    if all(json.loads(row[0]) != "state" for row in answer.rows):
        tell(f'State "{name}" is not there yet; it counts from its first write.')


@quota.command()
@click.argument("state", required=False)
@click.option("--tf-plan", metavar="FILE", help="A plan of terraform plan -out=FILE.")
@click.option(
    "--tf-plan-json", metavar="FILE", help="What terraform show -json prints of one, or -."
)
@format_option
@connection_options
def check(
    state: str | None, tf_plan: str | None, tf_plan_json: str | None, fmt: str, target: Target
) -> None:
    """Tell whether a plan fits the quotas of STATE as it is now; by default this directory's.

    A plan file is read by the terraform or tofu on PATH, or KL_IAC_BIN, in this directory. Beyond
    a soft limit this warns and ends with status 0, beyond a hard limit it ends with status 6.

    \b
    Examples:
        kl quota check --tf-plan plan.tfplan
        terraform show -json plan.tfplan | kl quota check prod --tf-plan-json -
    """
    if (tf_plan is None) == (tf_plan_json is None):
        raise click.UsageError("give the plan with --tf-plan or with --tf-plan-json.")
    name = state_of(target, state)
    if tf_plan is not None:
        file, data = tf_plan, _show_plan(tf_plan)
    else:
        file = "standard input" if tf_plan_json == "-" else str(tf_plan_json)
        with old_file(str(tf_plan_json)) as source:
            data = source.read()
    report = check_plan(target, name, _parse_plan(data, file))
    if fmt == "json":
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        rows = [[json.dumps(line[key]) for key in _CHECKED] for line in report["limits"]]
        show(Answer([Column(*column) for column in _CHECKED.items()], rows, False), fmt)
    judge(report)


def _show_plan(file: str) -> bytes:
    """The JSON of a plan file, from the user's own terraform in this directory."""
    from kilolock.scratch import find_program

    here, path = Path.cwd(), Path(file)
    if not path.is_file():
        raise SourceError(f"{file} is not a file", BAD_INPUT, "terraform plan -out=FILE makes one.")
    binary = find_program(here, os.environ)
    try:
        done = subprocess.run(
            [binary, "show", "-json", "-no-color", str(path.absolute())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except OSError as ex:
        raise SourceError(f"{binary} cannot be run: {ex.strerror}", BAD_INPUT) from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").splitlines()
        problem = next((line.strip() for line in said if "Error:" in line), "no reason given")
        raise SourceError(
            f"{Path(binary).name} cannot show {file}: {problem}",
            BAD_INPUT,
            "Run this in the directory that the plan was made in.",
        )
    return done.stdout


def _parse_plan(data: bytes, name: str) -> planfile.Plan:
    """The plan in this JSON; name says in errors where it is from."""
    try:
        shown = json.loads(data)
    except (ValueError, RecursionError):
        raise _no_plan(name, "is not JSON") from None
    version = shown.get("format_version") if isinstance(shown, dict) else None
    if not isinstance(version, str):
        raise _no_plan(name, "is not a plan of terraform show -json")
    if version.split(".")[0] not in _PLAN_MAJOR_VERSIONS:
        raise _no_plan(name, f"has format {version}, which this kl does not know")
    if "planned_values" not in shown:
        raise _no_plan(name, "is a state, not a plan")
    if shown.get("errored"):
        raise _no_plan(name, "is of a plan that failed, which cannot be applied")
    try:
        plan = planfile.from_json(shown)
        words = [w for c in (*plan.changes, *plan.drift) for w in (c.address, *c.actions)]
        if all(isinstance(word, str) for word in words):
            return plan
    except (TypeError, KeyError, AttributeError, IndexError):
        pass
    raise _no_plan(name, "has changes that cannot be read")


def _no_plan(name: str, problem: str) -> SourceError:
    return SourceError(f"{name} {problem}", BAD_INPUT, "terraform show -json PLAN prints one.")
