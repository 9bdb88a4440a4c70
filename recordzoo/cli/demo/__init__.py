"""`demo`: the whole way of a dataset, offline, in about a minute."""

from pathlib import Path
from typing import Annotated

from recordzoo.cli.options import directory_option


def demo(
    output: Annotated[Path, directory_option("Where the demo's files and its contact sheet go.")] = Path("demo-output"),
) -> int:
    """Show the whole way in about a minute, offline, with generated pictures in CUB-200-2011's layout."""
    from recordzoo.cli.demo.story import run_demo

    return run_demo(output)
