"""Shields and policies of continuous systems, which read real-valued states."""
