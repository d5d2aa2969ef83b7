/** The parts of an OpenAPI 3.1 document that the page shows. */
export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
}

interface Operation {
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

type Content = Record<string, { schema?: Schema }>;

interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  items?: Schema;
  anyOf?: Schema[];
  required?: string[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
}

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
  code { font: 0.9em ui-monospace, monospace; background: #f3f3f3; padding: 0.1em 0.3em; border-radius: 3px }
  table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem }
  td { border-top: 1px solid #ddd; padding: 0.3rem 0.8rem 0.3rem 0; vertical-align: top }
  details { border: 1px solid #ddd; border-radius: 4px; padding: 0.4rem 0.8rem; margin: 0.4rem 0 }
  summary { cursor: pointer } summary b { display: inline-block; width: 4.5em }
  h2 { margin-top: 2.5rem } nav a { margin-right: 1em }`;

/** The document as one page of HTML, without scripts: what can be called, with what, and what comes back. */
export function referencePage(document: OpenApiDocument): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const sections = (document.tags ?? []).map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags?.includes(name));
    return `<h2 id="${slug(name)}">${escape(name)}</h2><p>${prose(description)}</p>${own.map(operationHtml).join('')}`;
  });
  const schemas = Object.entries(document.components?.schemas ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const { title, version, description } = document.info;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>
    <meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body>
    <h1>${escape(title)} ${escape(version)}</h1><p>${prose(description)}</p>
    <p>Every call carries the header <code>X-API-KEY</code>. The same as OpenAPI 3.1: <a href="openapi.json">openapi.json</a></p>
    <nav>${[...(document.tags ?? []), { name: 'Objects' }].map(({ name }) => `<a href="#${slug(name)}">${escape(name)}</a>`).join('')}</nav>
    ${sections.join('')}
    <h2 id="objects">Objects</h2>
    ${schemas.map(([name, schema]) => `<h3 id="${slug(name)}">${escape(name)}</h3>${fields(schema)}`).join('')}
    </body></html>`;
}

function operationHtml({ path, method, operation }: { path: string; method: string; operation: Operation }): string {
  const { parameters = [], requestBody, responses } = operation;
  const given = parameters.map((parameter) =>
    row(
      parameter.name,
      `${parameter.in}${parameter.required ? ', required' : ''}`,
      parameter.schema,
      parameter.description,
    ),
  );
  const answers = Object.entries(responses).map(
    ([status, { description, content }]) =>
      `<tr><td>${escape(status)}</td><td>${contentHtml(content)}</td><td>${prose(description)}</td></tr>`,
  );
  return `<details><summary><b>${method.toUpperCase()}</b> <code>${escape(path)}</code> ${escape(operation.summary ?? '')}</summary>
    <p>${prose(operation.description)}</p>
    ${given.length > 0 ? `<table>${given.join('')}</table>` : ''}
    ${requestBody ? `<p>Body: ${contentHtml(requestBody.content)}</p>${bodyFields(requestBody.content)}` : ''}
    <table>${answers.join('')}</table></details>`;
}

function contentHtml(content: Content = {}): string {
  return Object.entries(content)
    .map(([type, { schema }]) => (type === 'application/json' ? typeHtml(schema) : `<code>${escape(type)}</code>`))
    .join(', ');
}

function bodyFields(content: Content): string {
  const schema = content['application/json']?.schema;
  return schema && !schema.$ref ? fields(schema) : '';
}

function fields({ properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(([name, schema]) =>
    row(name, required.includes(name) ? '' : 'optional', schema),
  );
  return `<table>${rows.join('')}</table>`;
}

function row(name: string, note: string, schema: Schema, description = schema.description): string {
  const nested = schema.properties ? fields(schema) : '';
  return `<tr><td><code>${escape(name)}</code> ${escape(note)}</td><td>${typeHtml(schema)}</td><td>${prose(description)}${nested}</td></tr>`;
}

function typeHtml(schema: Schema | undefined): string {
  if (!schema) return '';
  if (schema.$ref) {
    const name = schema.$ref.split('/').at(-1) as string;
    return `<a href="#${slug(name)}">${escape(name)}</a>`;
  }
  if (schema.anyOf) return schema.anyOf.map(typeHtml).join(' or ');
  if (schema.const !== undefined) return `<code>${escape(JSON.stringify(schema.const))}</code>`;
  if (schema.enum) return schema.enum.map((value) => `<code>${escape(String(value))}</code>`).join(' ');
  if (schema.type === 'array') return `list of ${typeHtml(schema.items)}`;
  const limits = [
    schema.format,
    schema.minimum === undefined ? undefined : `from ${schema.minimum}`,
    schema.maximum === undefined ? undefined : `to ${schema.maximum}`,
    schema.maxLength === undefined ? undefined : `up to ${schema.maxLength} characters`,
    schema.default === undefined ? undefined : `default ${JSON.stringify(schema.default)}`,
  ].filter((limit) => limit !== undefined);
  return escape([schema.type ?? 'any', limits.join(' ')].filter(Boolean).join(', '));
}

function slug(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

/** Text with its `code` marked. */
function prose(text = ''): string {
  return escape(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character] as string);
}
