"""`Claim`: the file that reserves an address for the record set being pushed to it."""

import contextlib
import re

from recordzoo.errors import OtherSourceError, RemoteError
from recordzoo.net.failures import NOT_FOUND
from recordzoo.net.store import Store

CLAIM_NAME = "push.claim"
_DIGEST = re.compile(r"[0-9a-f]{16,128}")
_MAX_BYTES = 200


class Claim:
    """The right to write to an address until its manifest exists. Pushes of the same record set share one claim.

    A store with exclusive creation of files (S3, a disk) gives the claim to exactly one of several record sets.
    Elsewhere the last writer has the claim, and `is_ours` is False for the others.

    Args:
        store: The address.
        digest: Digest of the record set being pushed.

    Attributes:
        is_held: Whether `take` succeeded.
    """

    def __init__(self, store: Store, digest: str) -> None:
        self._store, self._digest = store, digest
        self.is_held = False

    def take(self, *, replace: bool) -> None:
        """Create the claim file.

        Args:
            replace: Take the claim from another record set.
        """
        holder = self._holder()
        if replace and holder not in (None, self._digest):
            self._store.remove(CLAIM_NAME)
            holder = None
        if holder is None:
            self._store.create(CLAIM_NAME, self._digest.encode())
        if not self.is_ours():
            raise self.other()
        self.is_held = True

    def is_ours(self) -> bool:
        """Whether this record set still has the claim."""
        return self._holder() == self._digest

    def other(self) -> OtherSourceError:
        """Return the error for an address claimed by another record set."""
        holder = self._holder() or ""
        which = f" (digest {holder[:16]}...)" if _DIGEST.fullmatch(holder) else ""
        return OtherSourceError(
            f"Another record set{which} is being pushed to {self._store.url}, or its push was killed. Name another "
            "address, or wait for it; if no such push is running, pass --replace (replace=True).",
            url=str(self._store.url),
        )

    def release(self) -> None:
        """Remove the claim file if this push holds it; ignore failures: beside a manifest, a claim has no effect."""
        with contextlib.suppress(RemoteError):
            if self.is_held and self.is_ours():
                self._store.remove(CLAIM_NAME)

    def _holder(self) -> str | None:
        """Return the digest in the file; None if there is no claim."""
        try:
            return self._store.read(CLAIM_NAME, _MAX_BYTES).decode("ascii", "replace")
        except RemoteError as err:
            if err.status == NOT_FOUND:
                return None
            raise
