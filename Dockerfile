# One image for all processes: `stoker run admission`, `controller` and `certificates`; `stoker lint` works in it, too.
#
# PYTHON_IMAGE is an image of Python 3.13 by its digest; it has no default, because a tag is another image next week:
#
#     make image-pin     asks the registry for today's digest of the tag and writes it to requirements/image.txt
#     make image         builds with it, with SBOM and provenance
#
# REQUIREMENTS=report makes the image of `stoker report` and `stoker replay`, with what their pages are drawn with.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
ARG REQUIREMENTS=runtime
WORKDIR /src
COPY requirements/${REQUIREMENTS}.txt requirements/build.txt requirements/
# Whatever is installed or runs here has a hash in requirements/: the build backend as well, so nothing is fetched by a build step.
RUN python -m venv /opt/build \
    && /opt/build/bin/python -m pip install --no-cache-dir --only-binary=:all: --require-hashes --requirement requirements/build.txt \
    && python -m venv --without-pip /opt/stoker \
    && python -m pip --python /opt/stoker/bin/python install --no-cache-dir --no-compile --only-binary=:all: --require-hashes \
        --requirement requirements/${REQUIREMENTS}.txt
COPY hack/slim.sh hack/
RUN hack/slim.sh /opt/stoker/lib/python3*/site-packages
COPY pyproject.toml README.md LICENSE ./
COPY operator/src operator/src
RUN /opt/build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && python -m pip --python /opt/stoker/bin/python install --no-cache-dir --no-compile --no-deps --no-index /wheels/*.whl
# Compiled here, because nothing can write there later; by no file's time, so that the same files become the same layer.
RUN /opt/stoker/bin/python -m compileall -q --invalidation-mode=unchecked-hash /opt/stoker/lib

FROM ${PYTHON_IMAGE}
# Nothing that runs needs an installer.
RUN python -m pip uninstall --yes --quiet pip setuptools wheel \
    && rm -rf /usr/local/lib/python3*/ensurepip /usr/local/bin/pip* /root/.cache
COPY --from=build /opt/stoker /opt/stoker
ENV PATH=/opt/stoker/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title=stoker \
    org.opencontainers.image.description="Keeps the GPUs of deep-learning jobs fed" \
    org.opencontainers.image.licenses=Apache-2.0
USER 65532:65532
ENTRYPOINT ["stoker"]
