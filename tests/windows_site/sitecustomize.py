"""Python imports this when it starts, where this folder is in PYTHONPATH: so worker processes are on "Windows", too."""

from tests.windows import become

try:
    become()
except Exception as err:  # else Python would go on, as if it were not on "Windows"
    raise SystemExit(f"tests.windows: {err!r}") from err
