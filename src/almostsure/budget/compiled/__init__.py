"""The compiled engine of k*, and the compiled pass of the certificate's checker, which shares nothing with it."""
