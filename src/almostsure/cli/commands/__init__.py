"""The commands; each file is named after its first command, and contains related ones too."""
