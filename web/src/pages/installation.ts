import { useQuery } from '@tanstack/preact-query';
import { useMay } from '../access/may.tsx';
import { api, type Schemas, take } from '../api/client.ts';

/** The effective settings. */
export function useInstallation() {
  const { seeAll } = useMay();
  return useQuery({
    enabled: seeAll,
    queryKey: ['settings'],
    queryFn: () => take(api.GET('/api/v1/settings')),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

type Installation = Schemas['Settings'] | undefined;

/** URL of an account's executions in the Temporal UI; undefined: the URL of the UI is not known. */
export function runsUrl(installation: Installation, accountId: string): string | undefined {
  const base = workflowsUrl(installation);
  return base && `${base}?query=${encodeURIComponent(`MailAccount="${accountId}"`)}`;
}

/** URL of a workflow in the Temporal UI. */
export function workflowUrl(installation: Installation, workflowId: string): string | undefined {
  const base = workflowsUrl(installation);
  return base && `${base}/${encodeURIComponent(workflowId)}`;
}

/** URL of the list of executions in the Temporal UI. */
export function workflowsUrl(installation: Installation): string | undefined {
  if (!installation?.temporal_ui_url) return undefined;
  return `${installation.temporal_ui_url}/namespaces/${encodeURIComponent(installation.temporal_namespace)}/workflows`;
}
