import type { Email } from '../../src/contract/email.ts';
import type { Page } from '../../test/helpers/product/api.ts';
import type { Bench } from '../ground/setup.ts';
import { filled } from '../reads.ts';
import { send } from '../sends.ts';
import type { Search, Side } from './side.ts';

const PARAMETERS: Record<Search, string> = { word: 'q', subject: 'subject', sender: 'from' };

/** The product as a side of the comparison. */
export function productSide(bench: Bench): Side {
  const { api, pid, mailbox, reportedAt, allReported, reportsOf } = bench;
  const request = (path: string) => ({ url: `${api.base}/api/v1${path}`, headers: { 'X-API-KEY': api.key } });
  return {
    name: 'product',
    pids: [pid],
    mailbox,
    reportedAt,
    allReported,
    reportsOf,
    filled: async (series, count) => (await filled(bench, count, series)).account.id,
    reads: async (account) => {
      const path = `/${account}/emails`;
      const { data } = await api.get<Page<Email>>(`${path}?limit=1&meta_only=true`);
      return {
        listWithBodies: [request(`${path}?limit=50`)],
        list: [request(`${path}?limit=50&meta_only=true`)],
        oneEmail: [request(`${path}/${data[0]?.id}`)],
      };
    },
    // each connection to Postgres plans a search in its first calls
    warmUp: 20,
    search: (account, search, text) =>
      api.request(
        'GET',
        `/${account}/emails?${PARAMETERS[search]}=${encodeURIComponent(text)}&limit=50&meta_only=true`,
      ),
    hits: (body) => (body as Page<Email>).data.length,
    send: (sender, reader, series, number) => send(bench, sender, reader, series, number),
  };
}
