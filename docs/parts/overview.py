"""The catalogue at a glance: the table of the site, which `docs/catalogue.js` sorts and filters."""

from html import escape

from recordzoo import catalogue
from recordzoo.catalogue import CHECKED, Entry
from recordzoo.catalogue import search as licenses
from recordzoo.catalogue.search import searched_text, tasks
from recordzoo.cli.listing import number, size

OBTAINED = {"download": "downloaded", "terms": "after accepting terms", "partly": "some by hand", "by hand": "by hand"}
"""How raw files are had, in a word or three."""

_LIMITS = {"0.1 GB": 1e8, "1 GB": 1e9, "5 GB": 5e9, "10 GB": 1e10, "100 GB": 1e11}
"""Sizes of downloads that the table is filtered by."""

_COLUMNS = ("Dataset", "Task", "Images", "Classes", "Download", "License", "Obtained", "Checked")


def entries() -> list[Entry]:
    """Return what is known of all datasets, by title."""
    return sorted(map(catalogue.entry, catalogue.names()), key=lambda entry: entry.title.lower())


def page_table() -> str:
    """Return the table of all datasets: HTML, because cells carry the values to sort by, rows those to filter by."""
    head = " ".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "\n".join(map(_row, entries()))
    meanings = "\n".join(f'- "{how}": {meaning}' for how, meaning in CHECKED.items())
    return (
        '<div id="catalogue-controls"></div>\n'
        f'<table id="catalogue">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n\n'
        "## Licenses\n\n"
        "recordzoo contains no images. A license is as the authors or the host state it: a dataset's page and "
        '`recordzoo info NAME` have the sentence and its source. "Any '
        f'{licenses.OPEN}": Apache, BSD, CC0, CC BY, CC BY-SA, MIT or public domain, and nothing else is said.\n\n'
        "## Checked\n\n"
        f"How far a dataset's recipe was compared with its real files:\n\n{meanings}"
    )


def _row(entry: Entry) -> str:
    kind = licenses.group(entry.license)
    terms = (kind if kind == licenses.NOT_STATED else f"any {kind}", licenses.name(entry.license))
    attributes = {
        "task": "|".join(tasks(entry)),
        "license": "|".join(filter(None, terms)),
        "obtained": OBTAINED[entry.obtained],
        "checked": entry.checked.by,
        "size": "|".join(name for name, most in _LIMITS.items() if _fits(entry, most)),
        "search": searched_text(entry),
    }
    name = f'<a href="{entry.name}/">{escape(entry.title)}</a> <code>{entry.name}</code>'
    chips = " ".join(f"<span>{escape(task)}</span>" for task in tasks(entry))
    contents: list[tuple[str, str | int | None]] = [
        (f"{name}<p>{escape(entry.summary)}</p>", entry.title.lower()),
        (chips, ""),
        (number(entry.num_images), entry.num_images),
        (number(entry.num_classes), entry.num_classes),
        (size(entry).replace("about ", "~"), entry.known_bytes or None),
        (escape(licenses.shown(entry.license)), ""),
        (attributes["obtained"], ""),
        (entry.checked.by, ""),
    ]
    cells = [_cell(label, *content) for label, content in zip(_COLUMNS, contents, strict=True)]
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<tr{data}>{' '.join(cells)}</tr>"  # the search takes cells without spaces for one word


def _fits(entry: Entry, most: float) -> bool:
    return entry.size_bytes is not None and entry.size_bytes <= most


def _cell(label: str, content: str, value: str | int | None) -> str:
    """Write a cell; `value` is what it is sorted by, if not by what it shows; None is unknown, and comes last."""
    number = isinstance(value, int) or value is None
    shown = "" if value is None else escape(str(value))
    sort = "" if value == "" else f' data-value="{shown}"{" data-number" if number else ""}'
    return f'<td data-label="{label}"{sort}>{content}</td>'
