"""The report as one page that opens from disk, with no network."""
