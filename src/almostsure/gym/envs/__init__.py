"""Environments that sample models, and well-known environments with their models."""
