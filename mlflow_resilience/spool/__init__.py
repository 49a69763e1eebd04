"""The append-only journal on disk, and what it says; on the standard library alone."""
