import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../product/child.ts';

/** Files of a server certificate for localhost and 127.0.0.1, and of the CA that signed it. */
export interface TestCertificate {
  ca: string;
  cert: string;
  key: string;
}

/** Makes a CA and a server certificate in `dir` with the openssl program, for further `names` too; good for two days. */
export async function makeCertificate(dir: string, names: readonly string[] = []): Promise<TestCertificate> {
  await mkdir(dir, { recursive: true });
  const file = (name: string) => join(dir, name);
  const openssl = (...args: string[]) => run('openssl', args, { cwd: dir });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl(
    ...['req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=Test CA'],
  );
  await openssl('req', ...newKey, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost');
  const subjects = ['DNS:localhost', 'IP:127.0.0.1', ...names.map((name) => `DNS:${name}`)];
  await writeFile(file('server.ext'), `subjectAltName = ${subjects.join(', ')}\nextendedKeyUsage = serverAuth\n`);
  await openssl(
    ...['x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'],
    ...['-out', 'server.pem', '-days', '2', '-extfile', 'server.ext'],
  );
  return { ca: file('ca.pem'), cert: file('server.pem'), key: file('server.key') };
}
