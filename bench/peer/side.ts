import type { MailUser } from '../../test/helpers/product/mail-user.ts';
import type { Request } from '../ground/callers.ts';
import type { ConnectedMailbox, Reporter } from '../ground/setup.ts';
import type { SendCall } from '../sends.ts';

export type Search = 'word' | 'subject' | 'sender';

/** EmailEngine refuses addresses under `.test`. */
export const DOMAIN = 'mail.example.com';

/** A product in the comparison: how it is called, and where its CPU is spent. */
export interface Side extends Reporter {
  name: string;
  /** the processes whose trees are the product */
  pids: number[];
  /** Connects a mailbox with the mails of a series in INBOX, and waits until it has read them; returns its account. */
  filled(series: string, count: number): Promise<string>;
  /** The requests that together are one list of 50 with bodies, one without, and one email. */
  reads(account: string): Promise<{ listWithBodies: Request[]; list: Request[]; oneEmail: Request[] }>;
  /** calls that do not count, before searches of a kind are timed */
  warmUp: number;
  /** Searches for at most 50 emails. */
  search(account: string, search: Search, text: string): Promise<Response>;
  /** the emails in the response to a search */
  hits(body: unknown): number;
  send(sender: ConnectedMailbox, reader: MailUser, series: string, number: number): Promise<SendCall>;
}
