import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { nodeSample, pythonSample } from './code-samples.ts';
import { storedText } from './stored-text.ts';

/** Its path. It was `/docs` before the documents were there: `/docs/json` and `/docs/yaml` remain. */
const PATH = '/docs/reference';

/** The page loads nothing from elsewhere and calls this origin only. Swagger UI sets `style` attributes. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Code samples: options of Swagger UI that the types of its package do not declare. */
const SAMPLES: object = {
  requestSnippetsEnabled: true,
  requestSnippets: {
    generators: {
      curl_bash: { title: 'curl', syntax: 'bash' },
      node: { title: 'Node', syntax: 'javascript' },
      python: { title: 'Python', syntax: 'python' },
    },
    defaultExpanded: true,
  },
  plugins: [{ fn: { requestSnippetGenerator_node: nodeSample, requestSnippetGenerator_python: pythonSample } }],
};

/**
 * Serves Swagger UI at `/docs/reference`, from the installed package. Calls use the session of the dashboard, or a key that the
 * reader types in; each call is shown as code for curl, Node and Python.
 */
export async function serveReferencePage(app: FastifyInstance, publicUrl: string): Promise<void> {
  await app.register(async (docs) => {
    docs.addHook('onRequest', async (_request, reply) => {
      reply.headers({
        'Content-Security-Policy': CONTENT_SECURITY_POLICY,
        'X-Content-Type-Options': 'nosniff',
        'Referrer-Policy': 'no-referrer',
      });
    });
    await docs.register(swaggerUi, {
      routePrefix: PATH,
      // the path under which a proxy serves the API
      indexPrefix: new URL(publicUrl).pathname,
      theme: { title: 'Email Mailbox API' },
      uiConfig: {
        layout: 'BaseLayout',
        docExpansion: 'list',
        displayRequestDuration: true,
        defaultModelExpandDepth: 5,
        defaultModelsExpandDepth: 0,
        tryItOutEnabled: true,
        persistAuthorization: false,
        ...SAMPLES,
      },
      // relative to the document: calls go to the origin that served the page, whatever PUBLIC_URL is
      transformSpecification: (document) => ({ ...document, servers: [{ url: '../..' }] }),
      transformSpecificationClone: false,
    });
  });
  const document = storedText('application/json; charset=utf-8', () =>
    JSON.stringify({ ...app.swagger(), servers: [{ url: '..' }] }),
  );
  app.get('/docs/json', { schema: { hide: true } }, document);
  app.get('/docs/yaml', { schema: { hide: true } }, (_request, reply) => reply.redirect('reference/yaml'));
}
