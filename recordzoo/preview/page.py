"""The page: one HTML file with its images in it, which requests nothing."""

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

from PIL import Image

from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.preview.thumbnail import Thumbnail

BOX = (480, 480)
"""Maximum size of a picture on the page."""

GENERATOR = "recordzoo show"
_LOSSLESS_BELOW = 128  # pixels of the longer side: small images are shown pixel by pixel
_QUALITY = 82


def write_page(thumbnails: Iterable[Thumbnail], title: str, subtitle: str = "") -> str:
    """Write the page, with a title and a line below it; the same arguments give the same text."""
    items, classes = [], {}
    for each in thumbnails:
        items.append(_item(each))
        if each.label is not None:
            classes[each.label] = clean(each.class_name)
    css, js = _resource("page.css"), _resource("page.js")
    return _fill(
        _resource("page.html"),
        {
            "title": html.escape(clean(title)),
            "subtitle": html.escape(clean(subtitle)),
            "generator": GENERATOR,
            "css": css,
            "css-hash": _hash(css),
            "js": js,
            "js-hash": _hash(js),
            "data": script_json({"items": items, "classes": [list(each) for each in sorted(classes.items())]}),
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


def _item(thumbnail: Thumbnail) -> dict[str, JSON]:
    return {
        "position": thumbnail.position,
        "name": clean(thumbnail.name),
        "short": clean(thumbnail.short_name),
        "caption": clean(thumbnail.caption),
        "label": thumbnail.label,
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
    """Return the hash of a script or a style for a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Replace ``{{name}}`` in a template by values, in one pass: values are not searched again."""
    return re.sub("{{(" + "|".join(values) + ")}}", lambda match: values[match[1]], template)
