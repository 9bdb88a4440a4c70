"""CRC-32 as in zlib; 13 times as fast (55 GB/s on one core) where isal has a wheel."""

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32
