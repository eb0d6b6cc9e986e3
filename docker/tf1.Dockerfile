# Genuine TensorFlow 1.15 on Python 3.7, for the reference's side: nothing of this project needs to be installed in it.
#
# Build, and take the interpreter out where the other side runs:
#   docker build -f docker/tf1.Dockerfile -t tower-parity-tf1 .
# A script that is to be recorded there, in the folder that holds it; the trace appears beside it:
#   docker run --rm -v "$PWD:/work" tower-parity-tf1 -- train.py
FROM python:3.7-slim-bullseye
RUN pip install --no-cache-dir 'tensorflow==1.15.5' 'protobuf<3.21'
COPY parity /opt/tower-parity/parity
COPY tf_towers /opt/tower-parity/tf_towers
ENV PYTHONPATH=/opt/tower-parity PYTHONDONTWRITEBYTECODE=1 TF_CPP_MIN_LOG_LEVEL=2
WORKDIR /work
ENTRYPOINT ["python", "-m", "tf_towers.record"]
