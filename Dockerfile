# syntax=docker/dockerfile:1

# The newest build of uWebSockets.js needs glibc 2.38, which Debian 13 has; musl (Alpine) fits none.
FROM node:22-trixie-slim AS packages
WORKDIR /larkway
COPY package.json package-lock.json ./
# Not `npm ci`: it refuses a lock file without the native builds of other platforms (scripts/install.mjs).
RUN npm install --no-save --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier
COPY src src
COPY scripts/compile.mjs scripts/install.mjs scripts/uws.mjs scripts/
# Fails where a native build is not the known one (LARKWAY_UWS_UNKNOWN=1: or is not known); the older build stays out,
# and so does the script that swagger-ui-dist would report installations with.
ARG LARKWAY_UWS_UNKNOWN
RUN node scripts/uws.mjs && rm -r node_modules/uWebSockets.js-glibc227 node_modules/@scarf \
    && node -e "require('uWebSockets.js')"
# The server bundled, and V8's code cache of it; then nothing more is compiled here.
RUN node scripts/compile.mjs compiled && rm -r node_modules/esbuild node_modules/@esbuild

FROM node:22-trixie-slim
# The server needs Node alone: what installs packages does not belong into an image that runs.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-* \
    && install -d -o node -g node /data
WORKDIR /larkway
COPY package.json ./
COPY --from=packages /larkway/node_modules node_modules
COPY --from=packages /larkway/compiled compiled
COPY src src

ENV NODE_ENV=production \
    PORT=8080 \
    LARKWAY_DATA=/data \
    NODE_COMPILE_CACHE=/larkway/compiled/v8
USER node
VOLUME /data
# 8443 is HTTPS, where LARKWAY_TLS_CERT and LARKWAY_TLS_KEY are set.
EXPOSE 8080 8443

# No curl in the image: Node asks itself.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]

# Node is process 1 and answers SIGTERM itself: it drains and exits. Give it longer than the drain takes
# (`docker stop --time`, terminationGracePeriodSeconds).
STOPSIGNAL SIGTERM
CMD ["node", "compiled/main.js"]
