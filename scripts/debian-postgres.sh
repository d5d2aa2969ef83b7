#!/bin/sh
# Starts Debian's Postgres for the tests, as root, and prints the setting that makes them use it. Everything else is printed to
# standard error: `scripts/debian-postgres.sh >> "$GITHUB_ENV"`. A first argument is another port.
set -eu
port=${1:-5433}
{
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql
  version=$(ls /usr/lib/postgresql)
  pg_createcluster "$version" tests --port "$port" --locale C.UTF-8 \
    --pgoption max_connections=500 --pgoption fsync=off --pgoption full_page_writes=off --pgoption synchronous_commit=off
  pg_ctlcluster "$version" tests start
  runuser -u postgres -- psql --port "$port" -c "create role tests superuser login password 'tests'"
} >&2
echo "TEST_POSTGRES_URL=postgresql://tests:tests@127.0.0.1:$port/postgres"
