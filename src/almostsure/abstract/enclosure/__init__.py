"""Where a continuous system can go: interval arithmetic, the user's functions run on it, and images of cells."""
