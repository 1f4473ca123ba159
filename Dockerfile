# syntax=docker/dockerfile:1

FROM rust:1-bookworm AS build
WORKDIR /build
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN useradd --system --no-create-home --shell /usr/sbin/nologin redlock-proxy
COPY --from=build /build/target/release/redlock-proxy /usr/local/bin/redlock-proxy
COPY config/redlock-proxy.toml /etc/redlock-proxy/redlock-proxy.toml
USER redlock-proxy

# In a container only the published ports are reachable, so listen on all interfaces.
ENV REDLOCK_PROXY_LISTEN=0.0.0.0:6379 REDLOCK_PROXY_PROTECTED_MODE=no
EXPOSE 6379
# Docker sends SIGTERM, which drains, and by default SIGKILL after 10 s: run with --stop-timeout 15.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["redlock-proxy", "health"]
ENTRYPOINT ["redlock-proxy"]
