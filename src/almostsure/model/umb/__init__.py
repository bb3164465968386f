"""UMB files, the format that Storm, PRISM and Modest exchange: saving, loading, and what other programs write."""
