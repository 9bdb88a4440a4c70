"""Reject options of `prepare` that do not apply to the names given: they would be ignored."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from recordzoo.custom.targets import WHAT, Target, check_reading
from recordzoo.errors import ArgumentError

if TYPE_CHECKING:
    from recordzoo.cli.prepare import Request
    from recordzoo.preparing import Options


def check_usage(request: "Request", wanted: Sequence[Target], options: "Options") -> None:
    """Refuse options that none of the targets takes, --root beside a path, and --workers beside --dask.

    Raises:
        ArgumentError: There is such an option.
    """
    if request.dask is not None and options.workers is not None:
        raise ArgumentError(
            f"--workers {options.workers} is for processes of this machine, and --dask {request.dask} converts on "
            "that cluster's workers, however many there are. Pass one of them."
        )
    own = [target for target in wanted if target.entry is None]
    if request.root is not None and own:
        first = own[0]
        raise ArgumentError(
            f"--root {request.root} is for datasets, and {first.label} is {WHAT[first.kind]}: its record set lies "
            f"beside it. For another place, pass --output {request.root / first.root.name}.records."
        )
    for_datasets = {
        "--mirror": options.mirror is not None,
        "--accept-terms": options.accept_terms,
        "--discard-raw": options.discard_raw,
        "--no-check-hash": not options.check_hash,
    }
    _refuse(for_datasets, "datasets", own, wanted)
    check_reading(wanted, request.reading)


def _refuse(given: Mapping[str, bool], takers: str, others: Sequence[Target], wanted: Sequence[Target]) -> None:
    for option, is_given in given.items():
        if is_given and len(others) == len(wanted):
            raise ArgumentError(f"{option} is for {takers}, and {others[0].label} is {WHAT[others[0].kind]}.")
