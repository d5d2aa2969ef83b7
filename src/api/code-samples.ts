/*
 * Code samples of the API reference. The browser runs these functions from their source (`toString`): each must be
 * self-contained and must not need helpers that a compiler adds.
 */

/** A request as Swagger UI passes it: an immutable map. */
interface ShownRequest {
  get(name: string): unknown;
}

/** Writes a request as JavaScript that uses `fetch`. */
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

/** Writes a request as Python that uses `requests`. */
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
