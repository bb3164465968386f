"""Learners side by side on one problem."""
