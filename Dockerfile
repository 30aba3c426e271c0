# docker build -t sfumato .
# docker run --rm --user "$(id -u)" -v "$PWD:/data" sfumato scan people.csv
# docker run --rm -it --user "$(id -u)" --network host -v "$PWD:/data" sfumato serve --no-browser
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY data data
RUN python -m venv /opt/sfumato \
    && /opt/sfumato/bin/pip install --no-cache-dir --disable-pip-version-check \
        '.[postgres,secure,models,report,web]'

FROM python:3.13-slim
COPY --from=build /opt/sfumato /opt/sfumato
ENV PATH=/opt/sfumato/bin:$PATH NUMBA_CACHE_DIR=/var/cache/sfumato
RUN useradd --uid 10001 sfumato \
    && mkdir /data "$NUMBA_CACHE_DIR" && chown sfumato /data "$NUMBA_CACHE_DIR"
USER sfumato
WORKDIR /data
# Compiling takes half a minute: once here, not in every container. Whoever runs one may add to it.
RUN sfumato demo-data -o people.parquet --quiet \
    && sfumato scan people.parquet --quiet >/dev/null \
    && sfumato anonymize people.parquet -k 5 --qi birth_date,sex,zip --sensitive diagnosis -l 2 --quiet >/dev/null \
    && rm people.parquet && chmod -R a+rwX "$NUMBA_CACHE_DIR"
ENTRYPOINT ["sfumato"]
CMD ["--help"]
