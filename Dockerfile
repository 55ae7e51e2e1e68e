# syntax=docker/dockerfile:1

# The newest build of uWebSockets.js needs glibc 2.38, which Debian 13 has; musl (Alpine) fits none. The digest is of
# the index of all platforms; `docker buildx imagetools inspect node:22-trixie-slim` shows today's.
ARG BASE=node:22.23.3-trixie-slim@sha256:b26b04c123d9ff8ab646ceb18b9d75a1173acf64b9a401094b906d27b29338d4

FROM ${BASE} AS packages
RUN install -d -o node -g node /larkway
WORKDIR /larkway
# Node looks for V8's code cache under the number of its user, so that it is made by the one who runs the image.
USER node
COPY package.json package-lock.json LICENSE ./
# Not `npm ci`: it refuses a lock file without the native builds of other platforms (scripts/install.mjs).
RUN npm install --no-save --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier
COPY src src
COPY scripts/compile.mjs scripts/gather.mjs scripts/install.mjs scripts/load-program.mjs scripts/uws.mjs scripts/
# Fails where a native build is not the known one (LARKWAY_UWS_UNKNOWN=1: or is not known); the older build stays out,
# and so does the script that swagger-ui-dist would report installations with.
ARG LARKWAY_UWS_UNKNOWN
RUN node scripts/uws.mjs && rm -r node_modules/uWebSockets.js-glibc227 node_modules/@scarf \
    && node -e "require('uWebSockets.js')"
# The server bundled, V8's code cache of it, and what it reads; sbom.json and LICENCES.txt say what is in there. In the
# image it belongs to root, and Node lets its owner alone read a code cache.
RUN node scripts/gather.mjs image && chmod -R a+rX image

FROM ${BASE}
# The server needs Node alone: what installs packages does not belong into an image that runs.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-* \
    && install -d -o node -g node /data
WORKDIR /larkway
COPY --from=packages /larkway/image ./

ENV NODE_ENV=production \
    PORT=8080 \
    LARKWAY_DATA=/data \
    NODE_COMPILE_CACHE=/larkway/compiled/v8
USER node
VOLUME /data
# 8443 is HTTPS, where LARKWAY_TLS_CERT and LARKWAY_TLS_KEY are set.
EXPOSE 8080 8443

# No curl in the image, and a Node for each look would cost a fifth of a second of CPU: bash opens the socket.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 'GET /healthz HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r line <&3 && [[ $line == *' 200 '* ]]"]

# Node is process 1 and answers SIGTERM itself: it drains and exits. Give it longer than the drain takes
# (`docker stop --time`, terminationGracePeriodSeconds).
STOPSIGNAL SIGTERM
CMD ["node", "--v8-pool-size=1", "compiled/main.js"]
