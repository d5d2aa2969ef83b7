import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { run } from '../helpers/product/child.ts';
import { makeCertificate } from '../helpers/servers/test-ca.ts';

/*
 * Names that resolve to internal hosts: by a name server that changes its answers, mixes addresses, or points services
 * and aliases to internal hosts, and by a provider's document. All in a separate network namespace, whose addresses all
 * belong to the test.
 */

jest.setTimeout(180_000);

/** Network and mount namespaces need root, and a system that has them. */
const canUnshare = await run('unshare', ['-n', '-m', 'true']).then(
  () => true,
  () => false,
);

interface Result {
  outcomes: Record<string, unknown>;
  connections: Record<string, number>;
}

(canUnshare ? it : it.skip)('no name leads to a non-public address', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'hostile-'));
  const { ca, cert, key } = await makeCertificate(dir, ['autoconfig.documents.test']);
  const resolvers = join(dir, 'resolv.conf');
  await writeFile(resolvers, 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  const script = join(import.meta.dirname, '..', 'helpers', 'fakes', 'hostile-network.ts');
  const inside = `mount --bind ${resolvers} /etc/resolv.conf && exec ${process.execPath} --import tsx ${script} ${cert} ${key}`;
  const { stdout } = await run('unshare', ['-n', '-m', 'sh', '-c', inside], {
    cwd: projectRoot(),
    timeout: 150_000,
    env: { ...process.env, NODE_EXTRA_CA_CERTS: ca, NODE_OPTIONS: '' },
  });
  await rm(dir, { recursive: true, force: true });
  const { outcomes, connections } = JSON.parse(stdout) as Result;
  // the public address was reached, so the servers and the name server work
  expect(connections).toEqual({ '93.184.215.14': expect.any(Number) });
  const refused = Object.entries(outcomes).filter(([name]) => !/^(public|redirect|mail|discover|rebind)/.test(name));
  expect(refused.map(([name, outcome]) => [name, outcome])).toEqual(refused.map(([name]) => [name, 'address']));
  expect(outcomes).toMatchObject({
    'public.test': '200',
    'redirect.test': '302',
    // the vetted address is called; the next call resolves the name again
    'rebind.test': '200',
    'rebind.test again': 'address',
    'discover srv.test': ['inner.test', 'loop.test'],
    'discover srv-literal.test': ['127.0.0.1', '169.254.169.254'],
    'discover documents.test': ['127.0.0.1', 'metadata.test'],
    'discover inside.test': [null, null],
  });
});
