"""The best return against the budget, the expected damage and the risk, and which budget to ask for."""
