FROM python:3.12-slim

WORKDIR /src
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY kilolock kilolock
COPY sql sql
COPY migrations migrations
RUN pip install --no-cache-dir . && rm -rf /src/build \
    && useradd --system --create-home --home-dir /var/lib/kilolock kilolock

USER kilolock
WORKDIR /var/lib/kilolock
# Without KL_DATABASE_URL the image runs its own PostgreSQL in this folder: keep it on a volume.
ENV KL_PGDATA=/var/lib/kilolock/pg KL_LISTEN_ADDR=:8080 PYTHONUNBUFFERED=1
VOLUME /var/lib/kilolock
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["kld"]
CMD ["serve"]
