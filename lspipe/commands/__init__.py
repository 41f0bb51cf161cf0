"""One module per executable; they do not import each other."""
