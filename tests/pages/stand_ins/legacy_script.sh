# A script of TensorFlow 1, as a program and as a module, and an interpreter that has a TensorFlow.
cp "$CHECKOUT/examples/legacy_towers/train.py" train.py
mkdir -p trainer tf1/bin
cp train.py trainer/task.py
touch trainer/__init__.py
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v python)" > tf1/bin/python
chmod +x tf1/bin/python
