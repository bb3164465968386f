"""The minimal budget k*: reference algorithm, exact engines, certificate and explanations."""
