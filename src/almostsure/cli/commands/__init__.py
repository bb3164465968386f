"""The commands: each file is named after its first command, and holds those that go with it."""
