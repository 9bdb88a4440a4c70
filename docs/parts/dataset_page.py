"""The page of a dataset: all that its declaration, its classes and its fake say. Nothing of it is written by hand."""

import re

from docs.parts import card, code, croissant, real_samples, sources
from docs.parts.fakes import are_wanted, seen
from docs.parts.markdown import fenced, table
from docs.parts.overview import OBTAINED
from recordzoo.base.text import public_url
from recordzoo.catalogue import Entry, FileFacts, entry
from recordzoo.cli.listing import checked, disk, duration, license, number, size
from recordzoo.records.manifest import BlobSpec

_BESIDE = ("names", "split-")  # array files that every record set has
_STORED = {"image": "encoded image, as in the raw file", "json": "JSON", "bytes": "bytes, as in the raw file"}


def page(name: str) -> str:
    """Return the page in Markdown."""
    facts = entry(name)
    links = ["[All datasets](../datasets.md)", f"`{name}`", f"[Croissant]({name}.croissant.json)"]
    sections = [
        "---\nhide: [navigation]\n---",
        f"# {facts.title}",
        " · ".join(filter(None, [*links, sources.badge(facts)])),
        f"{facts.summary} [Homepage]({facts.homepage}).",
        real_samples.figure(name, "../../"),
        card.figure(name),
        at_a_glance(facts),
        *_code(facts),
        *_obtained(facts),
        *_splits(facts),
        *(_samples(facts) if are_wanted() else []),
        *(_stored(facts) if are_wanted() else []),
        *_record_sets(facts),
        *files(facts),
        *differences(facts),
        *citation(facts),
        *classes(facts),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def croissant_address(name: str) -> str:
    """Return where a dataset's Croissant metadata lies, relative to the root of the site."""
    return f"datasets/{name}.croissant.json"


def metadata(name: str) -> str:
    """Return a dataset's Croissant metadata."""
    return croissant.dumps(croissant.document(entry(name))) + "\n"


def at_a_glance(facts: Entry) -> str:
    """Return the table with which the page opens."""
    rows = [
        ("task", facts.task),
        ("images", number(facts.num_images)),
        ("classes", number(facts.num_classes)),
        ("download", size(facts, unknown="size not known")),
        ("obtained", OBTAINED[facts.obtained]),
        ("disk", disk(facts)),
        ("time", duration(facts)),
        ("license", _license(facts)),
        ("checked", checked(facts)),
        ("in Python", ", ".join(f"[`{name}`](#recordzoo.{name})" for name in facts.class_names)),
    ]
    return table(("fact", ""), [(f"**{key}**", value) for key, value in rows if value != "-"])


def _license(facts: Entry) -> str:
    """The license, and its source with addresses as links."""
    source = facts.license_source
    linked = re.sub(r"https?://[^\s,;()]+[^\s,;().]", r"<\g<0>>", source)
    return license(facts).removesuffix(source) + linked


def _code(facts: Entry) -> list[str]:
    parts = ["## Code", "Prepare it once:", fenced("sh", code.prepare(facts))]
    for kind in facts.class_names:
        parts += ["Load it:" if len(facts.class_names) == 1 else f"Load it, as `{kind}`:"]
        parts += [fenced("python", code.load(facts, kind))]
        parts += ["Train on it:", fenced("python", code.train(facts, kind))] if are_wanted() else []
    return parts


def _obtained(facts: Entry) -> list[str]:
    """How the files are had, where more than a download is needed."""
    if facts.obtained == "download" and not facts.instructions:
        return []
    said = {
        "download": "The files are downloaded. Where that fails:",
        "terms": "Accept the host's terms of access first; then pass `--accept-terms`, or `accept_terms=True`.",
        "partly": "Most files are downloaded. The others you fetch yourself:",
        "by hand": "No file can be downloaded without you: fetch the raw files yourself.",
    }[facts.obtained]
    by_hand = facts.instructions
    for name, shown in (("folder", f"data/{facts.folder}".rstrip("/")), ("root", "data"), ("recordzoo", "recordzoo")):
        by_hand = by_hand.replace(f"{{{name}}}", shown)
    return ["## How to get the files", said, *([fenced("text", by_hand)] if by_hand else [])]


def _splits(facts: Entry) -> list[str]:
    if not facts.splits:
        return ["## Splits", f"It has none: one list of {facts.num_images:,} images."]
    several = len(facts.parts) > 1
    opened = any(part.arguments for part in facts.parts)
    head = ("split", "samples", *(["record set"] if several else []), *(["opened by"] if opened else []))
    rows = []
    for split in facts.splits:
        arguments = ", ".join(f"{key}={value!r}" for key, value in facts.part(split.part).arguments.items())
        more = [f"`{facts.set_name(split.part)}.records`"] if several else []
        more += [f"`{arguments}`".replace("'", '"') if arguments else ""] if opened else []
        rows.append((f"`{split.name}`", f"{split.count:,}", *more))
    return ["## Splits", table(head, rows)]


def _samples(facts: Entry) -> list[str]:
    """What `dataset[i]` is."""
    found = ["## Samples", "What `dataset[i]` returns, before the transforms; `n` is a size that differs."]
    for kind, samples in seen(facts.name).samples.items():
        width = max(len(sample.items) for sample in samples)
        head = ("arguments", *(("image", "target") if width == 2 else [f"item {i}" for i in range(width)]))
        rows = [
            (f"`{s.arguments}`" if s.arguments else "the defaults", *(f"`{item}`" for item in s.items)) for s in samples
        ]
        found += [f"`{kind}`:", table(head, rows)]
    return found


def _stored(facts: Entry) -> list[str]:
    """The fields of the record set."""
    manifest = seen(facts.name).record_set.manifest
    arrays = {
        name: spec
        for name, spec in manifest.arrays.items()
        if not name.startswith(_BESIDE) and name.partition(".")[0] not in manifest.blobs
    }
    rows = [(f"`{name}`", *_blob(spec)) for name, spec in manifest.blobs.items()]
    rows += [(f"`{name}`", _dtype(spec.dtype), _shape(spec.shape[1:])) for name, spec in arrays.items()]
    text = "The fields of the record set, which [`RecordReader`](../api/own-data.md#recordzoo.RecordReader) reads."
    return ["## Fields", text, table(("field", "type", "shape"), rows)]


def _blob(spec: BlobSpec) -> tuple[str, str]:
    if spec.encoding != "raw":
        return _STORED[spec.encoding], ""
    return _dtype(spec.dtype), "differs" if spec.shape is None else _shape(spec.shape)


def _dtype(written: str) -> str:
    kinds = {"u": "uint", "i": "int", "f": "float", "b": "bool"}
    kind = kinds[written[1]]
    return f"`{kind}`" if kind == "bool" else f"`{kind}{8 * int(written[2:])}`"


def _shape(shape: tuple[int, ...]) -> str:
    return f"`[{', '.join(map(str, shape))}]`" if shape else "a number"


def _record_sets(facts: Entry) -> list[str]:
    rows = [
        (
            f"`{facts.label(part.name)}`",
            f"`{facts.set_name(part.name)}.records`",
            part.description or "everything",
            "only when named" if part.optional else "yes",
        )
        for part in facts.parts
    ]
    return ["## Record sets", table(("name", "directory", "holds", "prepared with the dataset"), rows)]


def files(facts: Entry) -> list[str]:
    """Return the section of the raw files."""
    place = f"In `data/{facts.folder}/`." if facts.folder else ""
    return ["## Raw files", place, table(("file", "bytes", "hash"), map(_file_row, facts.files))]


def _file_row(file: FileFacts) -> tuple[str, str, str]:
    name = f"[`{file.name}`]({public_url(file.urls[0])})" if file.urls else f"`{file.name}` (by hand)"
    name += "".join(f" [mirror]({public_url(url)})" for url in file.urls[1:])
    notes = [text for text, is_so in (("terms of access", file.needs_terms), ("optional", file.optional)) if is_so]
    about = f"about {file.about_bytes:,}" if file.about_bytes else "?"
    shown = f"{file.size_bytes:,}" if file.size_bytes else about
    return ", ".join([name, *notes]), shown, f"`{file.hashes}`" if file.hashes else "none known"


def differences(facts: Entry) -> list[str]:
    """Return the section on wanted differences from torchvision; nothing if there are none."""
    return ["## Unlike torchvision", "\n".join(f"- {each}" for each in facts.differences)] if facts.differences else []


def citation(facts: Entry) -> list[str]:
    """Return the section with what to cite."""
    language = "bibtex" if facts.citation.startswith("@") else "text"
    return ["## Cite", fenced(language, _lines(facts.citation))]


def _lines(citation: str) -> str:
    """Write each field of a BibTeX entry on a line of its own."""
    return re.sub(r", (?=\w+ ?=)", ",\n  ", citation) if citation.startswith("@") else citation


def classes(facts: Entry) -> list[str]:
    """Return the section that mkdocstrings fills: constructors, arguments, errors."""
    text = "Arguments that are not described here mean the same in [all datasets](../datasets.md#arguments)."
    return ["## In Python", text, *(f"::: recordzoo.{name}" for name in facts.class_names)]
