/*
 * How the reference shows a call as code. These functions run in the browser, from their text (`toString`): each stands
 * alone, uses nothing of this module, and nothing that a compiler would add.
 */

/** A call as Swagger UI gives it: an immutable map. */
interface ShownRequest {
  get(name: string): unknown;
}

/** With `fetch`, as in Node and browsers. */
export function nodeSample(request: ShownRequest): string {
  const given = (request.get('headers') ?? {}) as { toJS?: () => Record<string, string> };
  const headers: Record<string, string> = { ...(given.toJS ? given.toJS() : {}) };
  delete headers['accept'];
  if (!headers['X-API-KEY']) headers['X-API-KEY'] = 'YOUR_KEY';
  const body = request.get('body');
  const lines = [`  method: '${String(request.get('method'))}',`, `  headers: ${JSON.stringify(headers)},`];
  if (typeof body === 'string' && body !== '') lines.push(`  body: JSON.stringify(${body}),`);
  return `const response = await fetch('${String(request.get('url'))}', {\n${lines.join('\n')}\n});\nif (!response.ok) throw new Error((await response.json()).detail);\nconsole.log(await response.json());`;
}

/** With `requests`, as most Python programs do. */
export function pythonSample(request: ShownRequest): string {
  const given = (request.get('headers') ?? {}) as { toJS?: () => Record<string, string> };
  const headers: Record<string, string> = { ...(given.toJS ? given.toJS() : {}) };
  delete headers['accept'];
  if (!headers['X-API-KEY']) headers['X-API-KEY'] = 'YOUR_KEY';
  const body = request.get('body');
  const lines = [
    `    "${String(request.get('method'))}",`,
    `    "${String(request.get('url'))}",`,
    `    headers=${JSON.stringify(headers)},`,
  ];
  if (typeof body === 'string' && body !== '') lines.push(`    data=${JSON.stringify(body)},`);
  return `import requests\n\nresponse = requests.request(\n${lines.join('\n')}\n)\nresponse.raise_for_status()\nprint(response.json() if response.content else response.status_code)`;
}
