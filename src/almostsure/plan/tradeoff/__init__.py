"""The best return against the budget, the expected damage and the risk, and how to choose the budget."""
