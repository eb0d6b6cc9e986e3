# A repository with a case.
mkdir cases
cp -r "$CHECKOUT/tests/cases/square" cases/square
git init --quiet .
