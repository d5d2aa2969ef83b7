import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { signatureHeaders } from '../../src/webhooks/attempt/sign.ts';

/** The verifiers of docs/recipes/webhooks.md, as they are there. */

const run = promisify(execFile);
const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const BODY = '{"object":"Event","id":"evt_1","data":{"text":"Grüße 📬"}}';

let dir: string;
let page: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'verify-'));
  page = await readFile(join(projectRoot(), 'docs', 'recipes', 'webhooks.md'), 'utf8');
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const LANGUAGES = {
  javascript: {
    file: 'verify.mjs',
    command: process.execPath,
    more: `
      const [headers, body, secret] = process.argv.slice(2);
      console.log(verify(JSON.parse(headers), Buffer.from(body, 'base64'), secret).id);`,
  },
  python: {
    file: 'verify.py',
    command: 'python3',
    more: `
import base64, sys
print(verify(json.loads(sys.argv[1]), base64.b64decode(sys.argv[2]), sys.argv[3])["id"])`,
  },
};

describe.each(Object.entries(LANGUAGES))('the verifier in %s', (language, { file, command, more }) => {
  const verify = async (headers: Record<string, string>, body: string, secret: string) => {
    const [, code] = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms').exec(page) ?? [];
    await writeFile(join(dir, file), `${code}\n${more}\n`);
    const args = [join(dir, file), JSON.stringify(headers), Buffer.from(body).toString('base64'), secret];
    return (await run(command, args)).stdout.trim();
  };
  const signed = () => {
    const headers = signatureHeaders({ eventId: 'evt_1', body: Buffer.from(BODY), at: new Date(), secret: SECRET });
    return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  };

  it('accepts what is signed', async () => {
    expect(await verify(signed(), BODY, SECRET)).toBe('evt_1');
  });

  it('refuses another body, another secret, and no signature', async () => {
    await expect(verify(signed(), BODY.replace('evt_1', 'evt_2'), SECRET)).rejects.toThrow('wrong signature');
    await expect(verify(signed(), BODY, `${SECRET.slice(0, -2)}A=`)).rejects.toThrow('wrong signature');
    await expect(verify({}, BODY, SECRET)).rejects.toThrow('wrong signature');
  });
});
