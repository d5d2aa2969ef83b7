import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { SETTINGS } from '../../src/config/settings/index.ts';
import { SEARCH_ATTRIBUTES, searchAttributeType } from '../../src/workflows/names.ts';

/** Checks of docker-compose.yml without Docker: its schema, and what every service must have. */

const ROOT = join(import.meta.dirname, '..', '..');
const text = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8');
const compose = parse(text, { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
  configs: Record<string, { content: string }>;
  networks: Record<string, { internal?: boolean } | null>;
};

interface Service {
  image: string;
  build?: string;
  scale?: string;
  healthcheck?: { test?: string[]; disable?: boolean };
  mem_limit?: string;
  logging?: { driver: string; options: Record<string, string> };
  environment?: Record<string, string | null>;
  command?: string[];
  ports?: string[];
  configs?: { source: string; target: string }[];
  volumes?: string[];
  depends_on?: Record<string, unknown>;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  read_only?: boolean;
  networks?: string[];
}
const services = Object.entries(compose.services);

describe('docker-compose.yml', () => {
  it('matches the schema of Compose', () => {
    const schema = JSON.parse(readFileSync(join(import.meta.dirname, 'compose-spec.json'), 'utf8')) as {
      $schema?: string;
    };
    delete schema.$schema;
    const ajv = new Ajv({ strict: false, validateFormats: false });
    const validate = ajv.compile(schema);
    validate(compose);
    expect(validate.errors).toBeNull();
  });

  it.each(services)('%s has a health check, a memory limit and logs that rotate', (_name, service) => {
    const { healthcheck, mem_limit: memory, logging } = service;
    expect(healthcheck?.disable === true || (healthcheck?.test?.length ?? 0) > 1).toBe(true);
    expect(memory).toMatch(/^(\$\{\w+:-)?\d+[mg]\}?$/);
    expect(logging).toEqual({ driver: 'json-file', options: { 'max-size': '20m', 'max-file': '5' } });
  });

  it.each(services)('%s drops all rights but those that it needs', (name, service) => {
    expect(service.cap_drop).toEqual(['ALL']);
    expect(service.security_opt).toEqual(['no-new-privileges:true']);
    const needed = {
      postgres: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETGID', 'SETUID'],
      'operator-login': ['NET_BIND_SERVICE'],
    };
    expect(service.cap_add).toEqual(name in needed ? needed[name as keyof typeof needed] : undefined);
    if (service.build !== undefined) expect(service.read_only).toBe(true);
  });

  it('lets only those that use them reach Postgres and Temporal, which reach nothing outside', () => {
    expect(compose.networks['store']).toEqual({ internal: true });
    const inStore = services.filter(([, { networks }]) => networks?.includes('store')).map(([name]) => name);
    expect(inStore.filter((name) => !/^(temporal|postgres|server|worker)/.test(name))).toEqual([]);
    expect(compose.services['postgres']?.networks).toEqual(['store']);
    expect(compose.services['temporal']?.networks).toEqual(['store']);
    // mail servers, and what is published
    for (const name of ['server', 'worker', 'operator-login', 'prometheus']) {
      expect(compose.services[name]?.networks?.some((network) => network !== 'store')).toBe(true);
    }
  });

  it('names only existing services, volumes and configs', () => {
    const named = services.flatMap(([, service]) => Object.keys(service.depends_on ?? {}));
    expect(named.filter((name) => !(name in compose.services))).toEqual([]);
    const configs = services.flatMap(([, service]) => (service.configs ?? []).map(({ source }) => source));
    expect(new Set(configs)).toEqual(new Set(Object.keys(compose.configs)));
    const volumes = services.flatMap(([, service]) => service.volumes ?? []).map((volume) => volume.split(':')[0]);
    expect(new Set(volumes.filter((name) => !name?.startsWith('.')))).toEqual(new Set(Object.keys(compose.volumes)));
  });

  it('gives configs no owner or mode, which Compose warns about at each start', () => {
    const configs = services.flatMap(([, service]) => service.configs ?? []);
    expect(configs.map(Object.keys)).toEqual(configs.map(() => ['source', 'target']));
  });

  it('passes every setting of the API and the worker, but for those that have no sense in it', () => {
    const without = {
      // Temporal is the one of this file, which is reached within its network
      TEMPORAL_API_KEY: '',
      TEMPORAL_TLS: '',
      TEMPORAL_TLS_SERVER_NAME: '',
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: '',
      TEMPORAL_TLS_CLIENT_CERT_PATH: '',
      TEMPORAL_TLS_CLIENT_KEY_PATH: '',
      // how many containers of the worker there are
      WORKERS: '',
      // of `npm start`; here TEMPORAL_UI_LISTEN
      TEMPORAL_UI_PORT: '',
      // 3000 within the container; LISTEN says where it is published
      PORT: '',
    };
    const settings = Object.keys(SETTINGS);
    const passed = ['server', 'worker'].flatMap((name) => Object.keys(compose.services[name]?.environment ?? {}));
    expect(settings.filter((name) => !passed.includes(name) && !(name in without))).toEqual([]);
    expect(Object.keys(without).filter((name) => !settings.includes(name))).toEqual([]);
  });

  it('starts as many workers as .env says, at each `docker compose up`', () => {
    expect(compose.services['worker']?.scale).toBe('${WORKERS:-1}');
  });

  it.each(['STORAGE_ENCRYPTION', 'S3_ENDPOINT', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION'])(
    'passes %s to both as .env has it, and does not set it to nothing',
    (name) => {
      for (const service of ['server', 'worker'])
        expect(compose.services[service]?.environment).toHaveProperty(name, null);
    },
  );

  it('has no default for a secret, and .env.example names each one that must be given', () => {
    const secrets = [...text.matchAll(/\$\{(\w*(?:PASSWORD|KEY|TOKEN|HASH|USER)\w*)(:[-?])?([^}]*)\}/g)];
    // the first may be omitted: the server then creates a key; the other is empty unless keys are rotated
    const mayBeEmpty = new Set(['BOOTSTRAP_API_KEY', 'ENCRYPTION_KEY_PREVIOUS']);
    const lax = secrets.filter(([, name = '', how, rest]) =>
      mayBeEmpty.has(name) ? rest !== '' : how !== ':?' || rest === '',
    );
    expect(lax.map(([found]) => found)).toEqual([]);
    const example = readFileSync(join(ROOT, '.env.example'), 'utf8');
    const required = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name = '']) => name));
    expect([...required].filter((name) => !new RegExp(`^${name}=`, 'm').test(example))).toEqual([]);
  });

  it('publishes on this machine only, and the Temporal UI behind a login only', () => {
    const published = services.flatMap(([name, { ports = [] }]) => ports.map((port) => [name, port]));
    for (const [, port] of published) expect(port).toMatch(/^\$\{\w+:-127\.0\.0\.1:\d+\}:\d+$/);
    expect(published.map(([name]) => name).sort()).toEqual(['operator-login', 'prometheus', 'server']);
    const caddyfile = compose.configs['caddyfile']?.content ?? '';
    expect(caddyfile.indexOf('basic_auth')).toBeGreaterThan(0);
    expect(caddyfile.indexOf('basic_auth')).toBeLessThan(caddyfile.indexOf('handle'));
  });

  it('keeps the Temporal UI from fetching news, with an id of the installation, from outside', () => {
    expect(compose.services['temporal-ui']?.environment).toHaveProperty('TEMPORAL_DISABLE_NEWS_FETCH', 'true');
  });

  it('registers every search attribute with its type, and runs the images of the Dockerfile and of Node 24', () => {
    const script = (compose.services['temporal-namespace']?.command ?? []).join('\n');
    for (const name of Object.values(SEARCH_ATTRIBUTES))
      expect(script).toContain(`${name}=${searchAttributeType(name)}`);
    const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
    expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image)).toEqual(
      Array.from({ length: 2 }, () => 'node:24-bookworm-slim'),
    );
  });
});

describe('the Dockerfile', () => {
  it('removes packages that exist, since `rm -rf` would not say so', () => {
    const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
    const removed = [...dockerfile.matchAll(/ (node_modules\/\S+)/g)].map(([, path = '']) => path);
    expect(removed.length).toBeGreaterThan(3);
    const isThere = (path: string) =>
      readdirSync(join(ROOT, dirname(path))).some((name) => name.startsWith(basename(path).replace(/\*$/, '')));
    expect(removed.filter((path) => !isThere(path))).toEqual([]);
  });
});
