"""Raw data becomes a published record set: find, convert, publish, once."""
