"""Read a dataset's TOML file strictly: a typo must not pass for a missing value."""

import tomllib
from dataclasses import replace
from datetime import date

from recordzoo.catalogue.facts import CHECKED, Checked, DatasetPart, Entry, FileFacts, Layout, Split
from recordzoo.errors import ArgumentError

LAYOUTS = ("class_folders", "annotated")
"""The recipes that need no code of their own."""


def parse(name: str, text: str) -> Entry:
    """Read a dataset's facts from TOML, strictly: a key that is missing, unknown or of another type is an error.

    Args:
        name: The dataset's name.
        text: The TOML.

    Raises:
        ArgumentError: The text is not such a file; the message names the place.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise ArgumentError(f"{name}.toml is not TOML: {err}") from err
    top = _Table(f"{name}.toml", data)
    part_tables = top.tables("parts")
    splits = [Split(split, count) for split, count in top.counts("splits").items()]
    layout, parts = _layout(top), []
    for part, table in part_tables.items():
        splits += [Split(split, count, part) for split, count in table.counts("splits").items()]
        parts.append(
            DatasetPart(
                part,
                description=table.text("description", ""),
                optional=table.flag("optional"),
                set_name=table.text("set_name", ""),
                arguments=table.scalars("arguments"),
                layout=_layout_of(part, layout, table) if layout.kind else layout,
            )
        )
    files = tuple(_file(table) for table in top.table_list("files"))
    result = Entry(
        name=name,
        module=top.text("module", name),
        title=top.text("title"),
        summary=top.text("summary"),
        task=top.text("task"),
        homepage=top.text("homepage"),
        license=top.text("license"),
        license_source=top.text("license_source", ""),
        citation=top.text("citation"),
        checked=_checked(top),
        class_names=top.texts("class"),
        parts=tuple(parts) or (DatasetPart("", layout=layout),),
        files=files,
        splits=tuple(splits),
        images=top.number("num_images"),
        num_classes=top.number("num_classes"),
        classes=top.texts("classes", ()) or None,
        folder=top.text("folder", ""),
        expansion=top.ratio("expansion", 1.02),
        instructions=top.text("instructions", "").strip(),
        differences=top.texts("differences", ()),
    )
    for table in (top, *part_tables.values()):
        table.done()
    known = {part.name for part in result.parts}
    for what, wanted in [*((f.name, f.parts) for f in files), *((f"split {s.name}", (s.part,)) for s in splits)]:
        if not known.issuperset(wanted):
            raise ArgumentError(f"{name}.toml: {what} belongs to {wanted}, but the parts are {sorted(known)}.")
    return result


def _checked(top: "_Table") -> Checked:
    by, source, day = top.text("checked"), top.text("checked_source"), top.text("checked_date")
    if by not in CHECKED:
        raise ArgumentError(f"{top.where}: checked must be one of {', '.join(CHECKED)}; it is {by!r}.")
    try:
        date.fromisoformat(day)
    except ValueError as err:
        raise ArgumentError(f"{top.where}: checked_date must be a day, as 2026-11-24; it is {day!r}.") from err
    return Checked(by, day, source)


def _layout(table: "_Table") -> Layout:
    kind = table.text("layout", "")
    if not kind:
        return Layout()
    if kind not in LAYOUTS:
        raise ArgumentError(f"{table.where}: layout must be {' or '.join(LAYOUTS)}; it is {kind!r}.")
    return Layout(
        kind,
        top=table.text("top", "{part}/"),
        folders=table.strings("folders"),
        endings=table.texts("endings", ()),
        annotations=table.texts("annotations", ()),
    )


def _layout_of(part: str, layout: Layout, table: "_Table") -> Layout:
    """Return the layout of a part: that of the dataset, but for what the part says itself."""
    top = table.text("top", layout.top).replace("{part}", part)
    annotations = table.texts("annotations", layout.annotations)
    return replace(layout, top=top, annotations=tuple(each.replace("{part}", part) for each in annotations))


def _file(table: "_Table") -> FileFacts:
    part = table.text("part", "")
    result = FileFacts(
        name=table.text("name"),
        parts=table.texts("parts", (part,)),
        urls=table.texts("urls", ()),
        size_bytes=table.number("size_bytes"),
        about_bytes=table.number("about_bytes"),
        md5=table.text("md5", "") or None,
        sha256=table.text("sha256", "") or None,
        unconfirmed=table.flag("unconfirmed"),
        needs_terms=table.flag("needs_terms"),
        optional=table.flag("optional"),
    )
    if result.size_bytes is not None and result.about_bytes is not None:
        raise ArgumentError(f"{table.where}: about_bytes is for a file without size_bytes.")
    if result.unconfirmed and result.md5 is None:
        raise ArgumentError(f"{table.where}: unconfirmed is for a file with an md5.")
    for digest, length in ((result.md5, 32), (result.sha256, 64)):
        if digest is not None and (len(digest) != length or not set(digest) <= set("0123456789abcdef")):
            raise ArgumentError(f"{table.where}: {digest!r} is not a hash of {length} hexadecimal digits.")
    table.done()
    return result


class _Table:
    """One TOML table, and which of its keys nobody has asked for."""

    def __init__(self, where: str, data: dict[str, object]) -> None:
        self.where = where
        self._data = dict(data)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._data.pop(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._data.pop(key, default)
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise self._wrong(key, value, "a string or a list of strings")
        return tuple(items)

    def number(self, key: str) -> int | None:
        value = self._data.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, value, "a whole number")
        return value

    def ratio(self, key: str, default: float) -> float:
        value = self._data.pop(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            raise self._wrong(key, value, "a number above 0")
        return float(value)

    def counts(self, key: str) -> dict[str, int]:
        value = self._data.pop(key, {})
        if not isinstance(value, dict) or not all(type(count) is int and count >= 0 for count in value.values()):
            raise self._wrong(key, value, "a table of whole numbers")
        return value

    def strings(self, key: str) -> dict[str, str]:
        value = self._data.pop(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self._wrong(key, value, "a table of strings")
        return value

    def scalars(self, key: str) -> dict[str, str | int]:
        value = self._data.pop(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str | int) for item in value.values()):
            raise self._wrong(key, value, "a table of strings, whole numbers, true or false")
        return value

    def flag(self, key: str) -> bool:
        value = self._data.pop(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def tables(self, key: str) -> dict[str, "_Table"]:
        value = self._data.pop(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
            raise self._wrong(key, value, "tables")
        return {name: _Table(f"{self.where}: [{key}.{name}]", item) for name, item in value.items()}

    def table_list(self, key: str) -> list["_Table"]:
        value = self._data.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, value, "a list of tables")
        return [_Table(f"{self.where}: [[{key}]] number {i}", item) for i, item in enumerate(value, 1)]

    def done(self) -> None:
        """Reject unknown keys: a typo must not pass for a missing value."""
        if self._data:
            raise ArgumentError(f"{self.where} has unknown keys: {', '.join(self._data)}.")

    def _wrong(self, key: str, value: object, wanted: str) -> ArgumentError:
        found = "missing" if value is None else repr(value)
        return ArgumentError(f"{self.where}: {key} must be {wanted}; it is {found}.")
