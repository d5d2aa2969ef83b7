import { QueryClient, QueryClientProvider } from '@tanstack/preact-query';
import { render } from 'preact';
import { Router } from 'wouter-preact';
import { ApiFailure } from './api/client.ts';
import { App } from './app.tsx';
import { applyTheme } from './ui/theme.tsx';

applyTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // the server may be on this machine; without a network, calls fail and say so
      networkMode: 'always',
      refetchOnReconnect: true,
      // client errors are permanent; outages are not
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiFailure && (error.status === 0 || error.status >= 500),
    },
    // else what was pressed without a network would be done later, even after its form was closed
    mutations: { networkMode: 'always' },
  },
});

const root = document.getElementById('app');
if (root) {
  render(
    <QueryClientProvider client={queries}>
      <Router base={new URL(document.baseURI).pathname.replace(/\/$/, '')}>
        <App />
      </Router>
    </QueryClientProvider>,
    root,
  );
}
