import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { Api } from '../../helpers/product/api.ts';
import { run } from '../../helpers/product/child.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** docker-compose.yml on a container engine, with two workers, the profile `monitoring` and storage in S3. */
export interface Deployment {
  api: Api;
  /** base URLs of what is published on loopback */
  prometheus: string;
  login: { url: string; user: string; password: string };
  /** the address of this machine as API and workers reach it */
  gateway: string;
  /** seconds that `docker compose up` took, with the images built or pulled */
  upSeconds: number;
  containers(): Promise<Container[]>;
  /**
   * Ends the processes of a container of the service, of several at random, by SIGKILL, as a crash does: after `docker kill` a
   * restart policy does nothing. Returns when the policy has started it again.
   */
  crash(service: string): Promise<void>;
  /** Runs a line of a shell, such as `docker compose ps`; returns what it prints. */
  shell(line: string): Promise<string>;
  /** The first column of what a statement selects from the product's database. */
  column(statement: string): Promise<string[]>;
  /** the keys in the bucket */
  stored(): Promise<string[]>;
  /** Removes containers, networks and volumes. */
  close(): Promise<void>;
}

export interface Container {
  id: string;
  service: string;
  pid: number;
  restarts: number;
  /** `running`, `exited`, … */
  status: string;
  exitCode: number;
  /** `healthy`, `starting`, `unhealthy`, or `none` where a service has no check */
  health: string;
}

/** always the same one: a run removes what one that was killed has left */
const PROJECT = 'email-mailbox-api-test';
const BUCKET = 'mails';
const MAX_OUTPUT = 64 * 1024 * 1024;
const secret = (bytes = 24): string => randomBytes(bytes).toString('hex');

/** Why the tests of this folder cannot run here, in one line; undefined: they can. */
export function engineMissing(): string | undefined {
  for (const args of [['info'], ['compose', 'version']]) {
    const { status, error, stderr } = spawnSync('docker', args, { encoding: 'utf8', timeout: 20_000 });
    if (status !== 0) return `docker ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`;
  }
  if (process.getuid?.() !== 0) return 'only root can kill the processes of containers';
  return undefined;
}

/** Builds the image and starts everything; returns when the API is ready. */
export async function startDeployment(): Promise<Deployment> {
  const dir = await mkdtemp(join(tmpdir(), 'deployment-'));
  const settings = await makeSettings();
  const envFile = join(dir, '.env');
  await writeFile(envFile, settings.lines.join('\n'));
  const files = [join(projectRoot(), 'docker-compose.yml'), join(import.meta.dirname, 's3.yml')];
  const env = {
    ...passed(),
    COMPOSE_PROJECT_NAME: PROJECT,
    COMPOSE_FILE: files.join(':'),
    COMPOSE_ENV_FILES: envFile,
    COMPOSE_PROFILES: 'monitoring',
  };
  const shell = async (line: string) =>
    (await run('sh', ['-ec', line], { cwd: dir, env, maxBuffer: MAX_OUTPUT })).stdout;
  const remove = () => shell('docker compose down --volumes --timeout 10');
  const close = async () => {
    await remove();
    await rm(dir, { recursive: true });
  };
  const containers = async () => inspect(await shell('docker compose ps --all --quiet'));
  const s3 = new S3Client({ ...settings.s3, forcePathStyle: true });
  const began = Date.now();
  try {
    await remove();
    await shell('docker compose up -d --build');
    await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const api = new Api(`http://${settings.listen.api}`, settings.key);
    await waitFor(() => isReady(api), { timeoutMs: 120_000, everyMs: 500, what: 'the API to be ready' });
    return {
      api,
      close,
      containers,
      upSeconds: Math.round((Date.now() - began) / 1000),
      prometheus: `http://${settings.listen.prometheus}`,
      login: { url: `http://${settings.listen.login}`, user: 'operator', password: settings.password },
      gateway: await gatewayOf(`${PROJECT}_metrics`),
      crash: (service) => crash(containers, service),
      shell,
      column: async (statement) =>
        (await shell(`docker compose exec -T postgres psql -U mailbox -d mailbox -Atc "${statement}"`))
          .split('\n')
          .slice(0, -1),
      stored: () => keysIn(s3),
    };
  } catch (error) {
    const printed = await shell('docker compose logs --no-color --tail 20').catch(String);
    await close().catch(() => {});
    throw new Error(`${String(error)}\n${printed.slice(-8000)}`, { cause: error });
  }
}

/** The `.env` of a deployment, filled in as .env.example says. */
async function makeSettings() {
  const [api, login, prometheus, s3] = await Promise.all(
    Array.from({ length: 4 }, async () => `127.0.0.1:${await freePort()}`),
  );
  const password = secret();
  const hash = await docker('run', '--rm', 'caddy:2.10-alpine', 'caddy', 'hash-password', '--plaintext', password);
  const key = `test-${secret()}`;
  const credentials = { accessKeyId: secret(8), secretAccessKey: secret() };
  const lines = [
    `ENCRYPTION_KEY=${randomBytes(32).toString('base64')}`,
    ...['POSTGRES_PASSWORD', 'TEMPORAL_POSTGRES_PASSWORD', 'TEMPORAL_CODEC_TOKEN'].map((name) => `${name}=${secret()}`),
    'WORKERS=2',
    'OPERATOR_USER=operator',
    `OPERATOR_PASSWORD_HASH='${hash.trim()}'`,
    `BOOTSTRAP_API_KEY=${key}`,
    ...[`LISTEN=${api}`, `TEMPORAL_UI_LISTEN=${login}`, `PROMETHEUS_LISTEN=${prometheus}`, `S3_LISTEN=${s3}`],
    `STORAGE_URL=s3://${BUCKET}/mail`,
    'S3_ENDPOINT=http://s3:7070',
    'AWS_REGION=us-east-1',
    `AWS_ACCESS_KEY_ID=${credentials.accessKeyId}`,
    `AWS_SECRET_ACCESS_KEY=${credentials.secretAccessKey}`,
    // the mail servers and the receiver are on this machine, which has private addresses in the networks of an engine
    'OUTBOUND_ALLOW=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16',
    'ALLOW_INSECURE_MAIL=true',
  ];
  return {
    lines,
    key,
    password,
    listen: { api, login, prometheus },
    s3: { endpoint: `http://${s3}`, region: 'us-east-1', credentials },
  };
}

/** Other variables of this process would win over `.env`. */
function passed(): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(PATH|HOME|DOCKER_\w+)$/.test(name)));
}

async function docker(...args: string[]): Promise<string> {
  return (await run('docker', args, { maxBuffer: MAX_OUTPUT })).stdout;
}

/** The size of an image in bytes, with its base. */
export async function imageSize(name: string): Promise<number> {
  return Number(await docker('image', 'inspect', '--format', '{{.Size}}', name));
}

async function gatewayOf(network: string): Promise<string> {
  return (await docker('network', 'inspect', '--format', '{{(index .IPAM.Config 0).Gateway}}', network)).trim();
}

async function inspect(ids: string): Promise<Container[]> {
  const found = JSON.parse(await docker('inspect', ...ids.trim().split('\n'))) as {
    Id: string;
    RestartCount: number;
    State: { Pid: number; Status: string; ExitCode: number; Health?: { Status: string } };
    Config: { Labels: Record<string, string> };
  }[];
  return found.map(({ Id, RestartCount, State, Config }) => ({
    id: Id,
    service: Config.Labels['com.docker.compose.service'] ?? '',
    pid: State.Pid,
    restarts: RestartCount,
    status: State.Status,
    exitCode: State.ExitCode,
    health: State.Health?.Status ?? 'none',
  }));
}

async function crash(containers: () => Promise<Container[]>, service: string): Promise<void> {
  const of = async () => (await containers()).filter((one) => one.service === service);
  const running = await of();
  const victim = running[Math.floor(Math.random() * running.length)];
  // 0: it does not run
  if (victim === undefined || victim.pid <= 1) throw new Error(`no container of ${service} runs`);
  process.kill(victim.pid, 'SIGKILL');
  const isBack = (now: Container) => now.id === victim.id && now.restarts > victim.restarts && now.status === 'running';
  await waitFor(async () => (await of()).some(isBack), {
    ...{ timeoutMs: 60_000, everyMs: 300, what: `${service} to be started again` },
  });
}

async function keysIn(s3: S3Client): Promise<string[]> {
  const keys: string[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page = await s3.send(new ListObjectsV2Command({ Bucket: BUCKET, ContinuationToken }));
    for (const { Key } of page.Contents ?? []) keys.push(Key ?? '');
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken);
  return keys;
}

/** Whether it is ready; a connection that an engine accepts for a container that is not there may never end. */
const isReady = ({ base }: Api): Promise<boolean> =>
  fetch(`${base}/ready`, { signal: AbortSignal.timeout(5_000) }).then(
    async (response) => (await response.text()) !== '' && response.ok,
    () => false,
  );
