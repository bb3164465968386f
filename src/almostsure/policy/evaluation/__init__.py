"""What a policy achieves, exactly, with proved errors, and the most damage that can happen to it."""
