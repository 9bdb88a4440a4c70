"""CRC-32 as zlib computes it; where isal has a wheel 13 times as fast (55 GB/s on one core)."""

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32
