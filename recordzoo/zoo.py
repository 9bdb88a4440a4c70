"""The catalogue's datasets by name: look one up, prepare one, open a record set. Imports no torch itself."""

import contextlib
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from recordzoo import catalogue
from recordzoo.base.settings import command
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError
from recordzoo.net.url import is_url
from recordzoo.own.columns import LIST_ENDINGS, Columns
from recordzoo.own.lists import list_path
from recordzoo.own.targets import (
    Reading,
    Target,
    check_reading,
    completed,
    find_dataset,
    is_name,
    make,
    no_set,
    resolve,
)
from recordzoo.preparing.changes import made_in
from recordzoo.preparing.options import Options, PrepareOptions
from recordzoo.recipes.variant import Variant
from recordzoo.records.manifest import ENDING, ORIGINAL, Manifest, SetKind
from recordzoo.records.reader import RecordReader, extra_object, is_record_set
from recordzoo.records.writer import LAYOUT_FILE

if TYPE_CHECKING:
    from recordzoo.families.base import ZooDataset
    from recordzoo.own.fields import Kind


def info(name: str) -> Entry:
    """Return what is known of a dataset: title, license, splits, raw files, record sets.

    Args:
        name: One of `list_datasets`.

    Raises:
        ArgumentError: There is no such dataset.

    Examples:
        >>> import recordzoo
        >>> cub200 = recordzoo.info("cub200")
        >>> {split.name: split.count for split in cub200.splits}
        {'train': 5994, 'test': 5794, 'all': 11788}
    """
    return catalogue.entry(name)


# Any: a pandas or Arrow table, neither of which has to be installed.
def prepare(
    data: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | Any,
    root: str | os.PathLike[str] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    from_: str | None = None,
    split: str | None = None,
    allow_empty: bool = False,
    fields: Mapping[str, str] | None = None,
    kinds: Mapping[str, "Kind"] | None = None,
    allow_paths: bool = False,
    annotations: str | os.PathLike[str] | None = None,
    exif: Literal["turn", "keep"] = "turn",
    list_: str | os.PathLike[str] | None = None,
    image: str | None = None,
    targets: Mapping[str, str | None] | None = None,
    split_column: str | None = None,
    name_column: str | None = None,
    image_dir: str | os.PathLike[str] | None = None,
    image_suffix: str | None = None,
    separator: str | None = None,
    shuffle_seed: int | None = None,
    download: bool = True,
    **options: Unpack[PrepareOptions],
) -> list[Path]:
    """Make record sets of anything, as ``recordzoo prepare`` does; what is there already is left alone.

    `data` is taken for the first of these that fits:

    * the name of a dataset ("imagenet"), or of a part of one ("imagenet.val"). ``Path("imagenet")`` and "./imagenet"
      are directories;
    * a record set, of which a `variant` is made;
    * a list of files (``.txt``, ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` with paths), or a file of another tool, by
      its name and first bytes;
    * a directory of images with COCO JSON, YOLO labels or masks; one with an LMDB database or files of another tool;
      one whose only folders are ``train``, ``val``, ...: each becomes a record set; one with a folder for each class,
      as `ImageFolder` has it;
    * an address: ``hf://datasets/user/name``, ``mongodb://host/database/collection``.

    The formats of other tools are described at `docs/importing.md`. Nothing that they wrote is executed or unpickled.
    Any dataset of Python's is stored by `convert`.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time.

    Args:
        data: A dataset's name, a path, or an address; or a table of files: a pandas or Arrow table, a list of dicts.
        root: For datasets: the directory of the raw data and the record sets; downloads go there. Default: the current
            directory. Tables in memory need it: their paths are relative to it.
        output: The record set's directory. Default: ``<root>/<name>.records`` for datasets, ``<data>.records`` beside
            a path. Addresses and tables in memory need it.
        from_: How your own data is read: "classes" (every folder is a class, also ``train``), "flat" (all images in and
            below a directory, without classes), "coco", "yolo", "voc" or "masks" (images with annotations), "list", or
            a format: "tfrecord", "huggingface", ... Default: detected.
        split: Only the part of a dataset that holds this split, or this folder of a tree of splits.
        allow_empty: A class folder may be without images.
        fields: Other tools' data: the field that each key becomes: ``{"jpeg": "image", "class_id": "target"}``.
        kinds: Other tools' data: how fields are stored, as `convert` has it.
        allow_paths: Lists and other tools' data: read the files at their paths also outside of the data's folder.
        annotations: Images with COCO JSON: the one file to read, relative to the directory. Default: all of instances.
        exif: Images with annotations: "turn" those with an EXIF orientation when they are read (people annotate what
            they see), or "keep" them as the file has them. The bytes stay.
        list_: MongoDB: a JSON with "path_list" and "label_list" that says order and labels; documents are found by
            their "img_name".
        image: Lists: the column of paths. Default: "path", "image", "file", "filename", "image_id", ...
        targets: Lists: the columns that are targets, with their kinds: "class", "int", "float", "multilabel" ("a,b"),
            "text", or None (class, or float if all values are numbers and some have a fraction). The first is what
            `open` gives by default; ``target_type=`` chooses others. Default: the column "label", or the only one.
        split_column: Lists: the column of splits. Default: "split".
        name_column: Lists: the column of the records' names. Default: the paths.
        image_dir: Lists: the directory that paths are relative to. Default: the list's.
        image_suffix: Lists: what paths lack at their end: ".png" for a column of ids.
        separator: Lists: what stands between several labels. Default: ",".
        shuffle_seed: Lists: write the records in a random order that follows from this number, so that shards read
            front to back give a mixture. ``dataset[i]`` stays line i of the list.
        download: Download raw data that is not there.
        **options: See `PrepareOptions`; but ``records_dir`` is called `output` here.

    Returns:
        The record sets' directories. For a dataset, all parts are made that are not optional.

    Raises:
        ArgumentError: The dataset, part or split does not exist; `output` is given for several record sets; or an
            argument does not go with what `data` is.
        TermsError: Raw files must be downloaded by hand, or need `accept_terms=True`; the message says how.
        SourceError: Raw data is missing, cannot be downloaded, or is damaged.
        SampleError: A sample of another tool cannot be stored.
        OtherSourceError: `output` holds something else, or a list or its files changed; `refresh` replaces it.
        PrepareError: The conversion failed. Finished parts are kept.

    Examples:
        >>> import recordzoo
        >>> recordzoo.prepare("cub200", root="data")  # doctest: +SKIP
        [PosixPath('data/cub200.records')]
        >>> recordzoo.prepare("photos/", variant="256")  # doctest: +SKIP
        [PosixPath('photos-256.records')]
    """
    from recordzoo.own.columns import rows_of

    if "records_dir" in options:
        raise TypeError("prepare() got an unexpected keyword argument 'records_dir'; it is called output")
    place = None if output is None else Path(output).expanduser().absolute()
    wanted = Options.of({**options, "records_dir": place}, "prepare()")
    folder = None if image_dir is None else os.path.abspath(os.path.expanduser(image_dir))
    columns = Columns(
        image=image,
        targets={} if targets is None else targets,
        split=split_column,
        name=name_column,
        folder=folder,
        suffix=image_suffix,
        separator="," if separator is None else separator,
    )
    chosen = None if annotations is None else os.fspath(annotations)
    listed = None if list_ is None else os.fspath(list_)
    reading = Reading(from_, allow_empty, fields or {}, kinds or {}, columns, allow_paths, chosen, exif, listed)
    if not isinstance(data, str | os.PathLike):
        rows_of(data)  # raises if it is none
        if root is None or place is None:
            raise ArgumentError(
                f"A {type(data).__name__} needs root, the directory that its paths are relative to, and output, the "
                "directory of the record set."
            )
    wanted_sets = resolve(data, Path(root or ".").expanduser(), split, reading, place)
    check_reading(wanted_sets, reading)
    if place is None and is_url(data):
        raise ArgumentError(f"{wanted_sets[0].label} is an address: pass output, the directory of the record set.")
    if place is not None and len(wanted_sets) > 1:
        labels = ", ".join(target.label for target in wanted_sets)
        raise ArgumentError(
            f"Argument output names one record set, but {data} has several: {labels}. Name one of them."
        )
    return [make(completed(target, shuffle_seed, wanted), wanted, download=download).path for target in wanted_sets]


# Any: arguments of the dataset class that the set was made by.
def open(data: str | os.PathLike[str], root: str | os.PathLike[str] = ".", **arguments: Any) -> "ZooDataset":
    """Open a record set with the dataset class that it was made by.

    Args:
        data: The record set's directory or URL; or the name of a dataset that is prepared ("cub200", "imagenet.val").
        root: If `data` is a name: the directory of its record sets.
        **arguments: Arguments of the class: ``transform``, ``split``, ...; for your own data also ``transforms``,
            which get an image with its boxes and masks, as `RecordDataset` says. Arguments that choose a record set
            (VOC's ``year``, ImageNet's ``split``) are set already. If a dataset has several classes (VOC), the first
            is used.

    Returns:
        A dataset class of the catalogue; `ImageFolderRecord` for a tree; else `RecordDataset`, which has
        ImageFolder's attributes.

    Raises:
        RecordError: There is nothing at that path.
        ManifestError: There is something that is not a record set.
        NotPreparedError: The dataset is not prepared in `root`; the message says where it is, or how to prepare it.
        ArgumentError: The name and the arguments fit several record sets.
        OtherSourceError: It has no images. `RecordReader` reads its records.

    Examples:
        >>> import recordzoo
        >>> dataset = recordzoo.open("cub200.records", split="test")  # doctest: +SKIP
        >>> image, label = dataset[0]  # doctest: +SKIP
    """
    path = _named_set(data, Path(root).expanduser(), arguments) if is_name(data) else data
    module, name, chosen = _class_of(RecordReader(path).manifest)
    dataset: ZooDataset = getattr(importlib.import_module(module), name)(path, **{**chosen, **arguments})
    return dataset


# Any: arguments of a dataset class.
def _class_of(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    """Return module, name and further arguments of the class that opens a record set."""
    if manifest.kind is SetKind.FOLDER:
        return catalogue.class_modules()["ImageFolderRecord"], "ImageFolderRecord", {}
    entry = catalogue.entry_of(manifest)  # a later version may know more
    if entry is not None and "image" in manifest.blobs:
        return entry.dataset_module, entry.class_names[0], entry.part(manifest.part).arguments
    return "recordzoo.families.record_set", "RecordDataset", {}


# Any: arguments of a dataset class.
def _named_set(name: str, root: Path, arguments: Mapping[str, Any]) -> Path:
    """Find the record set of a dataset, or of the part that the arguments choose."""
    entry, part = find_dataset(name)
    parts = [each for each in entry.parts if part in (None, each.name)]
    chosen = [each for each in parts if {**each.arguments, **arguments}.items() >= each.arguments.items()]
    places = {
        entry.label(each.name): Target(name, root, entry=entry, part=each.name).place() for each in chosen or parts
    }
    found = {label: place for label, place in places.items() if is_record_set(place)}
    if not found:
        raise no_set(name, list(places.values()))
    if len(found) > 1:
        raise ArgumentError(f"{name} has several record sets in {root}: {', '.join(found)}. Name one of them.")
    return next(iter(found.values()))


def refresh_command(reader: RecordReader, root: str, *more: str) -> str:
    """Return the command line that prepares a record set from the raw data in a directory; without ``--refresh``.

    Args:
        more: Further words of the command line.
    """
    manifest = reader.manifest
    words = _words(reader, root)
    with contextlib.suppress(ArgumentError):  # a variant of a later version
        words += [] if manifest.variant == ORIGINAL else Variant.parse(manifest.variant).flags.split()
    words += ["--on-error", "skip"] if manifest.skipped else []
    layout = extra_object(reader, LAYOUT_FILE)  # of the shards, if the file beside the set names one
    sizes = {"--shards": layout.get("num_shards"), "--shard-size": layout.get("shard_bytes")}
    words += [word for name, value in sizes.items() if isinstance(value, int) for word in (name, str(value))]
    return command("prepare", *words, *more)


def update_command(reader: RecordReader, root: str) -> str:
    """Return `refresh_command` for a set whose raw files have changed, with ``--output`` if it is at another place."""
    usual = [str(place.absolute()) for place in _places(reader)[1:]]  # without the former path
    is_usual = (list_path(reader) or root) in usual or bool(reader.manifest.metadata.get("selection"))
    return refresh_command(reader, root, *([] if is_usual else ["--output", str(reader.folder)]))


def how_to_remake(reader: RecordReader) -> str:
    """Say how a damaged record set is prepared again, with the command line; "" if its data is unknown."""
    places = _places(reader)
    if not places:
        return ""
    place = next((each for each in places if each.exists()), places[0])
    line = refresh_command(reader, str(place), "--output", str(reader.folder), "--refresh")
    is_gone = reader.manifest.kind is not SetKind.ZOO and not place.exists()  # a dataset's raw data is downloaded
    return f"To make it again, {f'put its raw data back to {place} and ' if is_gone else ''}run: {line}"


def _places(reader: RecordReader) -> list[Path]:
    """List where the raw data may be: its former path, then the one that fits a set in the default place."""
    manifest, folder = reader.manifest, reader.folder
    if manifest.kind is SetKind.LIST:
        path = list_path(reader)
        return [*([] if path is None else [Path(path)]), *map(folder.with_suffix, LIST_ENDINGS)]
    if manifest.kind is SetKind.ZOO:
        beside = [] if catalogue.entry_of(manifest) is None else [folder.parent]
    elif manifest.kind in (SetKind.FOLDER, SetKind.FLAT, SetKind.ANNOTATED):
        beside = [folder.with_name(folder.name.removesuffix(ENDING).removesuffix(f"-{manifest.variant}"))]
    else:
        return []
    return [*map(Path, filter(None, [made_in(reader)])), *beside]


def _words(reader: RecordReader, root: str) -> list[str]:
    """Return the arguments of ``recordzoo prepare`` that rebuild a set from the raw data in a directory."""
    manifest = reader.manifest
    match manifest.kind:
        case SetKind.ZOO:
            return [manifest.title, "--root", root]
        case SetKind.FOLDER:
            return [root]
        case SetKind.FLAT:
            return [root, "--from", "flat"]
        case SetKind.ANNOTATED:
            chosen, form = (manifest.metadata.get(key) for key in ("annotation_file", "annotations"))
            turns = ("--exif", "keep") if manifest.metadata.get("exif") == "keep" else ()
            return [root, *(("--annotations", str(chosen)) if chosen else ("--from", str(form))), *turns]
        case SetKind.LIST:
            written = manifest.metadata.get("written")
            layout = written if isinstance(written, dict) else {}
            seed = layout.get("shuffle_seed")
            order = [] if seed is None else ["--shuffle", str(seed)]
            return [list_path(reader) or root, *Columns.from_json(layout.get("columns")).words(), *order]
    return []
