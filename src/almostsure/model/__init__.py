"""The Markov decision process, and the ways into and out of it."""
