import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiFailure, BASE } from '../api/client.ts';
import { Loading, Problem } from '../ui/parts.tsx';
import { applyTheme } from '../ui/theme.tsx';
import type { OpenApi } from './document.ts';
import { ReferencePage } from './page.tsx';

/* The reference of the API, made from its OpenAPI document. */

async function load(): Promise<OpenApi> {
  const response = await fetch(`${BASE}/openapi.json`).catch(() => undefined);
  if (!response?.ok) {
    throw new ApiFailure(response?.status ?? 0, { title: 'Not loaded', detail: 'The document cannot be loaded.' });
  }
  return (await response.json()) as OpenApi;
}

const first = load();
applyTheme();

function Reference() {
  const [document, setDocument] = useState<OpenApi>();
  const [error, setError] = useState<unknown>();
  const read = (loading: Promise<OpenApi>) => {
    setError(undefined);
    loading.then(setDocument, setError);
  };
  useEffect(() => read(first), []);
  if (document) return <ReferencePage document={document} />;
  return <main class="main">{error ? <Problem error={error} retry={() => read(load())} /> : <Loading />}</main>;
}

const root = document.getElementById('app');
if (root) render(<Reference />, root);
