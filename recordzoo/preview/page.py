"""The page: one HTML file with its images in it, which asks nobody for anything."""

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from PIL import Image

from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.preview.thumbnail import Thumbnail

BOX = (480, 480)
"""No picture of the page is larger."""

GENERATOR = "recordzoo show"
_LOSSLESS_BELOW = 128  # pixels of the longer side: small images are shown pixel by pixel
_QUALITY = 82


@dataclass(frozen=True)
class Card:
    """One image of the page: with the name that stands below it, and its class's number or None."""

    thumbnail: Thumbnail
    short_name: str
    label: int | None = None


def write_page(cards: Iterable[Card], class_name: Callable[[int], str], title: str, subtitle: str = "") -> str:
    """Write the page; the same arguments give the same text.

    Args:
        cards: The images, as they follow each other.
        class_name: Says what a class is called.
        title: The heading.
        subtitle: The line below it.
    """
    items = [_item(card) for card in cards]
    used = sorted({item["label"] for item in items if item["label"] is not None})
    data = {"items": items, "classes": [[label, clean(class_name(label))] for label in used]}
    parts = {name: _resource(f"page.{name}") for name in ("css", "js")}
    return _fill(
        _resource("page.html"),
        {
            "title": html.escape(clean(title)),
            "subtitle": html.escape(clean(subtitle)),
            "generator": GENERATOR,
            "css": parts["css"],
            "css-hash": _hash(parts["css"]),
            "js": parts["js"],
            "js-hash": _hash(parts["js"]),
            "data": script_json(data),
        },
    )


def script_json(value: JSON) -> str:
    """Write JSON for a script element: ASCII, and nothing in it that ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def data_uri(image: Image.Image) -> str:
    """Encode a picture as a data URI: JPEG, small ones PNG."""
    kind, options = ("PNG", {}) if max(image.size) < _LOSSLESS_BELOW else ("JPEG", {"quality": _QUALITY})
    file = io.BytesIO()
    image.save(file, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _item(card: Card) -> dict[str, JSON]:
    thumbnail = card.thumbnail
    return {
        "position": thumbnail.position,
        "name": clean(thumbnail.name),
        "short": clean(card.short_name),
        "caption": clean(thumbnail.caption),
        "label": card.label,
        "size": None if thumbnail.size is None else list(thumbnail.size),
        "format": clean(thumbnail.format),
        "mode": clean(thumbnail.mode),
        "bytes": thumbnail.num_bytes,
        "reason": clean(thumbnail.reason),
        "image": None if thumbnail.image is None else data_uri(thumbnail.image),
    }


def _resource(name: str) -> str:
    return files("recordzoo.preview").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a script or a style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in the places ``{{name}}`` of a template, in one pass: what a value holds is no place."""
    names: Sequence[str] = list(values)
    return re.sub("{{(" + "|".join(names) + ")}}", lambda match: values[match[1]], template)
