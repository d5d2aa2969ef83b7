import type { AlertChannel } from '../contract/overview.ts';

/** The ways in which messages go: those that are set. */
export function channelsOf({ url, email }: { [channel in AlertChannel]?: unknown }): AlertChannel[] {
  return [...(url ? ['url' as const] : []), ...(email ? ['email' as const] : [])];
}
