"""How a model looks in a terminal and in a notebook."""
