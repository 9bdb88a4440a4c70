"""Generated pictures; made by the package, because its demo needs them too."""

from recordzoo.cli.demo.pictures import Box, encoded, jpeg, picture, with_broken_exif

__all__ = ["Box", "encoded", "jpeg", "picture", "with_broken_exif"]
