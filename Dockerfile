# syntax=docker/dockerfile:1

FROM rust:1.95.0-bookworm AS build
WORKDIR /build
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-20260824-slim
LABEL org.opencontainers.image.title="redlock-proxy" \
      org.opencontainers.image.description="Makes N independent Redis masters look like one, and takes locks by majority" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
RUN groupadd --gid 65532 redlock-proxy && \
    useradd --uid 65532 --gid 65532 --no-create-home --shell /usr/sbin/nologin redlock-proxy
# Whom the system trusts, for masters that are reached by TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /build/target/release/redlock-proxy /usr/local/bin/redlock-proxy
COPY config/redlock-proxy.toml /etc/redlock-proxy/redlock-proxy.toml
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532

# In a container only the published ports are reachable, so listen on all interfaces.
ENV REDLOCK_PROXY_LISTEN=0.0.0.0:6379 REDLOCK_PROXY_PROTECTED_MODE=no
EXPOSE 6379
# Docker sends SIGTERM, which drains, and by default SIGKILL after 10 s: run with --stop-timeout 15.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["redlock-proxy", "health"]
ENTRYPOINT ["redlock-proxy"]
