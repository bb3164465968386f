"""Reading models in the languages of Storm (PRISM, JANI, DRN), and passing models to Storm."""
