"""Models in the languages that Storm reads (PRISM, JANI, DRN), and models and policies handed to Storm."""
