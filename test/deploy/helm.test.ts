import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import { SETTINGS } from '../../src/config/settings/index.ts';

/** The chart in deploy/helm. What needs `helm` is left out where that is not installed. */

const CHART = join(import.meta.dirname, '..', '..', 'deploy', 'helm');
const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;
const withHelm = has('helm', 'version') ? it : it.skip;

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  spec: {
    replicas?: number;
    template?: { spec: PodSpec };
  };
}
interface PodSpec {
  automountServiceAccountToken: boolean;
  securityContext: { runAsNonRoot: boolean };
  containers: {
    image: string;
    command: string[];
    securityContext: Record<string, unknown>;
    livenessProbe?: unknown;
    readinessProbe?: { httpGet: object };
    env: { name: string; value: string }[];
    envFrom: object[];
  }[];
}

const GIVEN = {
  'config.TEMPORAL_ADDRESS': 'temporal:7233',
  'config.STORAGE_URL': 's3://mail/prefix',
  'config.PUBLIC_URL': 'https://mail.example.com',
  existingSecret: 'mailbox',
};
const EVERYTHING = {
  ...GIVEN,
  'server.autoscaling.enabled': 'true',
  'worker.autoscaling.enabled': 'true',
  'server.ingress.enabled': 'true',
  'server.ingress.host': 'mail.example.com',
  'server.ingress.tlsSecret': 'mail-tls',
  'networkPolicy.enabled': 'true',
  'networkPolicy.serverFrom[0].namespaceSelector.matchLabels.name': 'ingress',
  'podMonitor.enabled': 'true',
};

const setting = (values: Record<string, string>) =>
  Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

function template(values: Record<string, string>): string {
  return execFileSync('helm', ['template', 'mail', CHART, ...setting(values)], { encoding: 'utf8' });
}

function manifests(values: Record<string, string>): Manifest[] {
  return parseAllDocuments(template(values)).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
}

describe('the chart', () => {
  it('has the version of package.json, and names no setting that does not exist', () => {
    const chart = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')) as { version: string; appVersion: string };
    const { version } = JSON.parse(readFileSync(join(CHART, '..', '..', 'package.json'), 'utf8')) as {
      version: string;
    };
    expect([chart.version, chart.appVersion]).toEqual([version, version]);
    const files = ['values.yaml', ...readdirSync(join(CHART, 'templates')).map((name) => join('templates', name))];
    const text = files.map((name) => readFileSync(join(CHART, name), 'utf8')).join('\n');
    const named = [...text.matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)].map(([name]) => name);
    // those of S3 are the SDK's own
    expect(named.filter((name) => !(name in SETTINGS) && !name.startsWith('AWS_'))).toEqual([]);
  });

  withHelm('is without a fault to `helm lint`', () => {
    expect(execFileSync('helm', ['lint', '--strict', CHART, ...setting(GIVEN)], { encoding: 'utf8' })).toContain(
      '0 chart(s) failed',
    );
  });

  withHelm('starts API and workers from the image, without rights, and with the settings', () => {
    const made = manifests(GIVEN);
    const deployments = made.filter(({ kind }) => kind === 'Deployment');
    expect(deployments.map(({ metadata }) => metadata.name)).toEqual([
      'mail-email-mailbox-api-server',
      'mail-email-mailbox-api-worker',
    ]);
    for (const { spec } of deployments) {
      const pod = spec.template?.spec;
      const [container] = pod?.containers ?? [];
      expect(pod).toMatchObject({ automountServiceAccountToken: false, securityContext: { runAsNonRoot: true } });
      expect(container?.securityContext).toEqual({
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      });
      expect(container?.command[1]).toMatch(/^dist\/(server|worker)\.js$/);
      expect(container?.livenessProbe).toBeDefined();
      expect(container?.envFrom).toEqual([
        { configMapRef: { name: 'mail-email-mailbox-api' } },
        { secretRef: { name: 'mailbox' } },
      ]);
      expect(spec.replicas).toBe(2);
    }
    // reads continue while Temporal is away; a rollout waits until a worker takes work
    expect(deployments.map(({ spec }) => spec.template?.spec.containers[0]?.readinessProbe?.httpGet)).toEqual([
      { path: '/health', port: 'http' },
      { path: '/ready', port: 'metrics' },
    ]);
    expect(made.filter(({ kind }) => kind === 'PodDisruptionBudget')).toHaveLength(2);
    expect(made.find(({ kind }) => kind === 'ConfigMap')?.data).toMatchObject({ STORAGE_URL: 's3://mail/prefix' });
  });

  withHelm('passes the numbers and switches of a values file as they are written', () => {
    const config = { MAX_BODY_BYTES: 36_700_160, MAX_ATTACHMENT_BYTES: '2000000', STORAGE_ENCRYPTION: true };
    const args = ['template', 'mail', CHART, ...setting(GIVEN), '--values', '-'];
    const text = execFileSync('helm', args, { encoding: 'utf8', input: JSON.stringify({ config }) });
    const data = parseAllDocuments(text)
      .find((one) => one.get('kind') === 'ConfigMap')
      ?.toJS() as Manifest;
    expect(data.data).toMatchObject({
      MAX_BODY_BYTES: '36700160',
      MAX_ATTACHMENT_BYTES: '2000000',
      STORAGE_ENCRYPTION: 'true',
    });
  });

  it('has no address on which pods listen outside its values', () => {
    const values = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')) as { listenAddress: string };
    expect(values.listenAddress).toBe('0.0.0.0');
    for (const name of ['server.yaml', 'worker.yaml']) {
      expect(readFileSync(join(CHART, 'templates', name), 'utf8')).toMatch(/_?HOST" "value" \.Values\.listenAddress\)/);
    }
  });

  withHelm.each([
    [GIVEN, '0.0.0.0'],
    [{ ...GIVEN, listenAddress: '::' }, '::'],
  ])('makes the pods listen on one address (%#)', (values, address) => {
    const env = manifests(values).flatMap(({ spec }) => spec?.template?.spec.containers[0]?.env ?? []);
    const hosts = env.filter(({ name }) => name.endsWith('HOST'));
    expect(hosts).toEqual([
      { name: 'HOST', value: address },
      { name: 'WORKER_METRICS_HOST', value: address },
    ]);
  });

  withHelm('has an autoscaler, an ingress, rules for networks and metrics where they are wanted', () => {
    const made = manifests(EVERYTHING);
    const kinds = made.map(({ kind }) => kind);
    expect(kinds).toEqual(
      expect.arrayContaining(['HorizontalPodAutoscaler', 'Ingress', 'NetworkPolicy', 'PodMonitor']),
    );
    for (const { kind, spec } of made) if (kind === 'Deployment') expect(spec.replicas).toBeUndefined();
  });

  withHelm.each([
    ['existingSecret', 'existingSecret must name a Secret'],
    ['config.TEMPORAL_ADDRESS', 'config.TEMPORAL_ADDRESS is not set'],
    ['config.STORAGE_URL', 'config.STORAGE_URL is not set'],
  ])('refuses a release without %s', (name, message) => {
    const { status, stderr } = spawnSync('helm', ['template', 'mail', CHART, ...setting({ ...GIVEN, [name]: '' })], {
      encoding: 'utf8',
    });
    expect([status === 0, stderr]).toEqual([false, expect.stringContaining(message)]);
  });

  withHelm('refuses a folder as the storage', () => {
    const values = setting({ ...GIVEN, 'config.STORAGE_URL': 'file:/data' });
    const { stderr } = spawnSync('helm', ['template', 'mail', CHART, ...values], { encoding: 'utf8' });
    expect(stderr).toContain('must be a bucket');
  });
});
