import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { attempt, CACHE, type OtherServer, startOther } from './other-servers.ts';

const FILES = join(projectRoot(), 'test/helpers/servers/james');

/**
 * Apache James, in Java: QRESYNC, OBJECTID, MOVE and LIST-STATUS, `.` between folders; refuses every set of UIDs in an empty
 * folder. Started within 15 seconds. Answers how to start it, or undefined where it cannot be had (no Maven, no Java, no
 * network at the first time).
 */
export async function james(): Promise<(() => Promise<OtherServer>) | undefined> {
  const repository = join(CACHE, 'maven');
  const classPath = join(CACHE, 'james.classpath');
  if (!existsSync(classPath)) {
    const build = ['-q', '-B', `-Dmaven.repo.local=${repository}`, '-f', join(FILES, 'pom.xml')];
    const goal = ['dependency:build-classpath', '-DincludeScope=runtime', `-Dmdep.outputFile=${classPath}`];
    if (!(await attempt('mvn', [...build, ...goal]))) return undefined;
  }
  if (!(await attempt('java', ['-version']))) return undefined;
  const libraries = await readFile(classPath, 'utf8');
  return () =>
    startOther('Apache James', async ({ user, password, imapPort }, dir) => {
      await mkdir(join(dir, 'conf'), { recursive: true });
      for (const [name, text] of Object.entries(configOf(imapPort))) await writeFile(join(dir, 'conf', name), text);
      const logging = `-Dlogback.configurationFile=${join(dir, 'conf/logback.xml')}`;
      return ['java', '-Xmx256m', logging, '-cp', libraries, join(FILES, 'James.java'), dir, user, password];
    });
}

/** The files of its configuration that differ from the defaults. */
function configOf(port: number): Record<string, string> {
  return {
    'imapserver.xml': `<imapservers><imapserver enabled="true">
      <jmxName>imapserver</jmxName><bind>127.0.0.1:${port}</bind>
      <auth><plainAuthEnabled>true</plainAuthEnabled><requireSSL>false</requireSSL></auth>
    </imapserver></imapservers>`,
    'usersrepository.xml': '<usersrepository><enableVirtualHosting>true</enableVirtualHosting></usersrepository>',
    'jmx.properties': 'jmx.enabled=false',
    'logback.xml': '<configuration><root level="OFF"/></configuration>',
  };
}
