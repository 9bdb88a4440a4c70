"""CRC-32 as zlib computes it; with the extra `recordzoo[fast]` 13 times as fast (isal: 55 GB/s on one core)."""

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32
