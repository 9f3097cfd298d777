"""The command ``fedkd dev net``: a federation on this machine, as real ones are, for trying things."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

__all__ = ["net"]


def net(
    silos: Annotated[int, typer.Argument(help="How many silos.", min=2, max=50)] = 3,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="KEY=VALUE", help="A setting of every node's config.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the SuperLink is called.")] = "devnet",
) -> int:
    """Run a federation of several silos here.

    It is a SuperLink with TLS, and silos with keys, rules and handwritten digits of their own. It stays until Ctrl-C,
    and then takes everything away, except the results of runs. After a change to your app's code, start again.

    Examples
    --------
    fedkd dev net 3
    fedkd dev net 2 --node allow-vote-rules=density-ratio
    """
    import time

    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.cli.simulate import Interrupts
    from fedkd_flwr.settings.run_settings import read_words
    from fedkd_flwr.silo.devnet import devnet as started

    line = ProgressLine()
    settings = read_words(node or [])
    with Interrupts(line, asks=False):
        try:
            with started(silos, node_settings=settings, name=name, show=line.show) as made:
                line.clear()
                typer.echo(f"{silos} silos and a SuperLink run in {made.folder}. In another terminal:")
                words = [f"public-path={made.public}", f"num-parties={silos}", "num-rounds=3", "--superlink", name]
                typer.echo(f"  {shlex.join(['fedkd', 'server', 'run', *words, '--wait'])}")
                typer.echo("Ctrl-C ends it.")
                while not (ended := [one for one, process in made.processes.items() if process.poll() is not None]):
                    time.sleep(0.5)
                log = (made.folder / ended[0] / "log.txt").read_text(encoding="utf-8", errors="replace")
                typer.echo(f"error: {ended[0]} ended: {' '.join(log.strip().splitlines()[-2:])[:600]}", err=True)
                return 1
        except KeyboardInterrupt:
            line.clear()
            return 0
