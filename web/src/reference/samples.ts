/** A call that is shown as code. */
export interface Sampled {
  method: string;
  url: string;
  headers: Record<string, string>;
  /** JSON text; empty: none */
  body: string;
}

export const LANGUAGES = ['curl', 'Node', 'Python'] as const;

/** A call as code that can be copied; it names no key. */
export function sampleOf(language: string, { method, url, headers, body }: Sampled): string {
  const sent = { 'X-API-KEY': 'YOUR_KEY', ...headers, ...(body === '' ? {} : { 'Content-Type': 'application/json' }) };
  if (language === 'Node') {
    const payload = body === '' ? '' : `\n  body: JSON.stringify(${body}),`;
    return (
      `const response = await fetch(${JSON.stringify(url)}, {\n  method: '${method}',\n  headers: ${JSON.stringify(sent)},${payload}\n});\n` +
      `if (!response.ok) throw new Error((await response.json()).detail);\nconsole.log(await response.text());`
    );
  }
  if (language === 'Python') {
    const payload = body === '' ? '' : `\n    data=${JSON.stringify(body)}.encode(),`;
    return (
      `import requests\n\nresponse = requests.request(\n    "${method}",\n    "${url}",\n    headers=${JSON.stringify(sent)},${payload}\n)\n` +
      'response.raise_for_status()\nprint(response.text)'
    );
  }
  const lines = Object.entries(sent).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return [`curl -X ${method} ${quoted(url)}`, ...lines, ...(body === '' ? [] : [`-d ${quoted(body)}`])].join(' \\\n  ');
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
