"""The card (README.md) and the contact sheet that `push` puts beside the record sets of a dataset on the Hub."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recordzoo import catalogue, project
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.catalogue.facts import Entry
from recordzoo.errors import ArgumentError
from recordzoo.preview.choose import candidates, choose, picture_field
from recordzoo.preview.labels import load_labels
from recordzoo.preview.sheet import BOX, Cell, draw_sheet
from recordzoo.preview.thumbnail import make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.kinds import FieldKind
from recordzoo.records.manifest import ENDING, Manifest
from recordzoo.records.reader import RecordReader

CARD = "README.md"
MARK = (
    "<!-- recordzoo push writes this page again when a record set changes. Remove this line to keep your own text. -->"
)
"""The line by which a later push knows its own card."""

_LICENSES = {
    "MIT": "mit",
    "CC0": "cc0-1.0",
    "CC0 1.0": "cc0-1.0",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 3.0": "cc-by-sa-3.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC-SA 3.0": "cc-by-nc-sa-3.0",
    "CC BY-NC-ND 4.0": "cc-by-nc-nd-4.0",
}
"""The catalogue's text of a license -> its name on the Hub (https://huggingface.co/docs/hub/repositories-licenses)."""

_TASKS = {
    "classification": "image-classification",
    "detection": "object-detection",
    "segmentation": "image-segmentation",
    "panoptic segmentation": "image-segmentation",
    "keypoints": "keypoint-detection",
    "captions": "image-to-text",
}
"""The catalogue's word for a task -> its name on the Hub (https://huggingface.co/tasks)."""

_FIELD_TASKS = {FieldKind.BOXES: "object-detection", FieldKind.MASKS: "image-segmentation"}
_LABELS = (FieldKind.CLASS, FieldKind.MULTILABEL)
_UNITS = ("", "K", "M", "B")
_SAMPLES, _CLASSES, _SEED, _QUALITY = 20, 50, 0, 85


@dataclass(frozen=True)
class OnHub:
    """A record set in a repository, as the card shows it: its URL, manifest, and the path of its contact sheet."""

    url: str
    manifest: Manifest
    sheet: str = ""


def license_warning(manifest: Manifest) -> str:
    """Return a sentence if the dataset's license does not clearly allow to publish its images; else ""."""
    entry = catalogue.entry_of(manifest)
    if entry is None or (entry.license in _LICENSES and "ND" not in entry.license):
        return ""
    return f"The license of {entry.title} is: {entry.license.rstrip('.')}. Check that you may publish its images."


def draw_samples(reader: RecordReader) -> bytes | None:
    """Draw at most 20 images of a record set on a sheet (JPEG), of as many classes as possible; None without images."""
    try:
        field = picture_field(reader)
    except ArgumentError:
        return None
    labels = load_labels(reader)
    chosen = choose(
        reader, field, candidates(reader, field, None, labels, ()), labels, order="class", number=_SAMPLES, seed=_SEED
    )
    if not chosen.positions:
        return None
    with quiet():
        thumbnails = [
            make_thumbnail(reader, field, position, BOX, labels, enlarge=True) for position in chosen.positions
        ]
    cells = [Cell(each.image, each.class_name, (), each.reason) for each in thumbnails]
    title = reader.path.name.removesuffix(ENDING)
    file = io.BytesIO()
    draw_sheet(cells, title, f"{len(cells)} of {chosen.num_candidates:,} images").save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def write_card(name: str, sets: Mapping[str, OnHub]) -> bytes:
    """Write the card of a repository.

    Args:
        name: The repository's name.
        sets: Its record sets, by their path in the repository; at least one.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    entries = {entry.name: entry for each in sets.values() if (entry := catalogue.entry_of(each.manifest)) is not None}
    all_known = all(catalogue.entry_of(each.manifest) is not None for each in sets.values())
    title = next(iter(entries.values())).title if len(entries) == 1 and all_known else name
    data = DatasetCardData(
        pretty_name=title,
        task_categories=sorted({task for each in sets.values() for task in _tasks(each.manifest)}) or None,
        tags=["recordzoo", "image"],
        size_categories=_size(sum(each.manifest.num_records for each in sets.values())),
        viewer=False,  # the viewer of the Hub cannot read LMDB
        **(_license(entries) if all_known else {}),
    )
    parts = [f"# {_line(title)}", *(_line(entry.summary) for entry in entries.values())]
    home = project.url("Documentation") or project.url("Source")
    link = f"[recordzoo]({home})" if home else "recordzoo"
    parts.append(f"Record sets of {link}: images in LMDB files, read as torchvision datasets.")
    for path, each in sets.items():
        parts += [f"## {_line((path or name).removesuffix(ENDING))}", *_described(each)]
    parts += ["## How to load", _how_to_load(list(sets.values()))]
    for entry in entries.values():
        source = f" Source: {entry.license_source}" if entry.license_source else ""
        parts += [f"## License of {_line(entry.title)}", _line(f"{entry.license}{source} Homepage: {entry.homepage}")]
        parts += (
            ["## Citation", _block("bibtex" if entry.citation.startswith("@") else "text", entry.citation)]
            if entry.citation
            else []
        )
    body = "\n\n".join(parts)
    return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{MARK}\n\n{body}\n")).encode()


def _license(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return the license for the front matter: its name on the Hub if that is sure."""
    texts = {entry.license for entry in entries.values()}
    text = texts.pop()
    if not texts and text in _LICENSES:
        return {"license": _LICENSES[text]}
    if not texts and text.startswith("Not stated"):
        return {"license": "unknown"}
    entry = next(iter(entries.values()))
    return {"license": "other", "license_name": f"{entry.name}-license", "license_link": entry.homepage}


def _tasks(manifest: Manifest) -> set[str]:
    entry = catalogue.entry_of(manifest)
    if entry is not None:
        return {_TASKS[word] for word in entry.task.split(", ") if word in _TASKS}
    found = {_FIELD_TASKS[spec.kind] for spec in manifest.fields.values() if spec.kind in _FIELD_TASKS}
    target = manifest.fields.get(manifest.default_target or "")
    return found | ({"image-classification"} if target is not None and target.kind in _LABELS else set())


def _size(count: int) -> str:
    """Return the Hub's category of a number of samples: ``1K<n<10K``."""
    if count < 1_000:
        return "n<1K"
    digits = len(str(count)) - 1
    low, high = (f"{10 ** (power % 3)}{_UNITS[power // 3]}" for power in (digits, digits + 1))
    return f"{low}<n<{high}"


def _described(each: OnHub) -> list[str]:
    """Write what is in a record set: facts, fields, classes, images."""
    manifest = each.manifest
    size = sum(shard.size_bytes for shard in manifest.shards) + sum(a.size_bytes for a in manifest.arrays.values())
    splits = ", ".join(f"{name} {count:,}" for name, count in manifest.splits.items())
    facts = [("records", f"{manifest.num_records:,}"), ("size", format_bytes(size)), ("form", manifest.variant)]
    facts[1:1] = [("splits", splits)] if splits else []
    kinds = {name: spec.encoding for name, spec in manifest.blobs.items()}
    for name in manifest.columns:
        spec = manifest.arrays[name]
        kinds[name] = f"{np.dtype(spec.dtype).name} {list(spec.shape[1:]) or ''}".strip()
    meant = {name: spec.kind for name, spec in manifest.fields.items()}
    rows = [(_code(name), str(meant.get(name, "")), kind) for name, kind in kinds.items()]
    parts = [_table(("", ""), facts), _table(("field", "meaning", "stored as"), rows)]
    classes = manifest.classes or manifest.object_classes or ()
    if classes:
        names = ", ".join(_code(name) for name in classes[:_CLASSES])
        rest = f" and {len(classes) - _CLASSES:,} more" if len(classes) > _CLASSES else ""
        parts.append(f"{len(classes):,} classes: {names}{rest}.")
    return [*parts, f"![Samples]({each.sheet})"] if each.sheet else parts


def _how_to_load(sets: Sequence[OnHub]) -> str:
    opened = [f'dataset = recordzoo.open("{each.url}")' for each in sets]
    if any(each.manifest.splits for each in sets):
        opened.append("# A split: recordzoo.open(..., split=...)")
    lines = ["import recordzoo", "", *opened]
    pulled = [f"recordzoo pull {each.url} data" for each in sets]
    shell = ["pip install 'recordzoo[hf]'", *pulled]
    said = "The files are read as they are needed; `recordzoo pull` copies a set to a disk."
    return "\n\n".join([said, _block("python", "\n".join(lines)), _block("sh", "\n".join(shell))])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    """Format a name as code: nothing in it is read as Markdown."""
    return "`" + clean(text).replace("`", "'") + "`"


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.replace('```', '')}\n```"


def _line(text: str) -> str:
    """Escape what would be HTML or a link in a line of text."""
    return clean(text).replace("<", "&lt;").replace("[", "\\[")
