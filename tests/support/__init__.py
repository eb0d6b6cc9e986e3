"""How the tests are run: which worker takes which, and what ends one that does not end by itself."""
