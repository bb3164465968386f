"""Ways of building a model: from transitions, arrays, tables, functions, maps and examples."""
