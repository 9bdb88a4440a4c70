"""Record sets become another set, or go to another place."""
