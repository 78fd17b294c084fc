# syntax=docker/dockerfile:1
# Tollgate in a container: `docker build -t tollgate .`, then see docker-compose.yml.

# The compiler that dist/profile.gz was recorded with; another one builds without it.
ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-bookworm AS build
WORKDIR /build
COPY . .
# The caches outlive the layer, so a change to one file does not compile the world again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    dist/build.sh \
    && install -D target/dist/tollgate /out/usr/local/bin/tollgate \
    && install -d /out/var/lib/tollgate /out/etc/tollgate

FROM debian:bookworm-slim
# Certificates from the build image: nothing is installed here, so nothing here needs updating but the base.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/usr/local/bin/tollgate /usr/local/bin/tollgate
COPY --from=build --chown=65532:65532 /out/var/lib/tollgate /var/lib/tollgate
USER 65532:65532
# The embedded store lives in the working directory; with Redis, the settlements that wait for it.
WORKDIR /var/lib/tollgate
VOLUME ["/var/lib/tollgate"]
EXPOSE 8080
# SIGTERM drains: streams end and every settlement is booked.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
    CMD ["tollgate", "health", "--url", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["tollgate"]
CMD ["serve", "--config", "/etc/tollgate/tollgate.toml"]
