"""The compiled engine of k*, and the compiled pass of the certificate check, which share no code."""
