"""UMB files, the exchange format of Storm, PRISM and Modest: saving, and loading files of any program."""
