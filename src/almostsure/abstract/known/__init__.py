"""Environments and systems whose dynamics are known."""
