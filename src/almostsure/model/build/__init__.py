"""Building models from transitions, matrices, tables, functions, maps and examples."""
