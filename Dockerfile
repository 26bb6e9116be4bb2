# One image for both processes: `stoker run admission` and `stoker run controller`; `stoker lint` works in it, too.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/runtime.txt requirements/
RUN python -m venv /opt/stoker \
    && /opt/stoker/bin/pip install --no-cache-dir --require-hashes --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator/src operator/src
RUN /opt/stoker/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
COPY --from=build /opt/stoker /opt/stoker
ENV PATH=/opt/stoker/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["stoker"]
