import type { ComponentChildren } from 'preact';
import { Link } from 'wouter-preact';
import { useMay } from '../access/may.tsx';
import type { Overview } from '../api/client.ts';
import { Badge, Empty, Time } from '../ui/parts.tsx';
import { ConnectButton } from './mailbox-parts.tsx';

type Found = Overview['problems'][number];

/** So many mailboxes of one server that cannot be reached are one row. */
const MAILBOXES_OF_A_SERVER = 3;

const KIND: Record<Found['kind'] | 'server', [string, 'bad' | 'warn']> = {
  account_disconnected: ['login refused', 'bad'],
  account_errored: ['not reachable', 'warn'],
  account_not_in_sync: ['not in sync', 'warn'],
  endpoint_disabled: ['disabled', 'warn'],
  endpoint_failing: ['calls fail', 'bad'],
  server: ['server away', 'bad'],
};

interface Shown {
  key: string;
  kind: keyof typeof KIND;
  href: string;
  name: string;
  detail: string;
  since: string | null;
  /** what helps */
  next: ComponentChildren;
}

/** What is wrong, since when, and what to do. */
export function Problems({ overview }: { overview: Overview }) {
  const problems = shownOf(overview.problems);
  return (
    <section class="card" aria-labelledby="problems">
      <div class="card-head">
        <h2 id="problems">What is wrong now</h2>
      </div>
      {problems.length === 0 && overview.accounts.total > 0 && (
        <Empty title="Nothing">Every mailbox is connected and every endpoint takes its calls.</Empty>
      )}
      {problems.length === 0 && overview.accounts.total === 0 && (
        <Empty title="Nothing is connected yet" action={<ConnectButton />}>
          Connect the first mailbox: its mail is here within seconds.
        </Empty>
      )}
      {problems.length > 0 && <Table problems={problems} />}
    </section>
  );
}

/** Mailboxes of one server that is away are one problem. */
function shownOf(problems: Found[]): Shown[] {
  const servers = new Map<string, Shown>();
  const others: Shown[] = [];
  for (const problem of problems) {
    const { kind, server, server_accounts: mailboxes, since } = problem;
    const isAway = kind === 'account_errored' || kind === 'account_not_in_sync';
    if (!isAway || server === null || mailboxes < MAILBOXES_OF_A_SERVER) {
      others.push(single(problem));
      continue;
    }
    const known = servers.get(server);
    if (!known) servers.set(server, serverRow(problem, server));
    else if (since !== null && (known.since === null || since < known.since)) known.since = since;
  }
  return [...servers.values(), ...others];
}

function serverRow({ detail, since, server_accounts: mailboxes }: Found, server: string): Shown {
  return {
    key: server,
    kind: 'server',
    href: '/mailboxes',
    name: server,
    detail: `${mailboxes} mailboxes: ${detail}`,
    since,
    next: 'Check the server or the network. Mailboxes are connected again automatically, and no mail is lost.',
  };
}

function single(problem: Found): Shown {
  const { kind, id, name, detail, since } = problem;
  const href = `/${kind.startsWith('account') ? 'mailboxes' : 'endpoints'}/${id}`;
  return { key: `${kind}${id}`, kind, href, name, detail, since, next: nextOf(problem, href) };
}

function nextOf({ kind, id }: Found, href: string): ComponentChildren {
  switch (kind) {
    case 'account_disconnected':
      return (
        <>
          <ReconnectLink id={id} /> with the right password.
        </>
      );
    case 'account_errored':
    case 'account_not_in_sync':
      return 'It is tried again automatically. Check the server if this lasts.';
    case 'endpoint_disabled':
      return (
        <>
          <Link href={href}>Enable it</Link>, then replay what it missed.
        </>
      );
    case 'endpoint_failing':
      return (
        <>
          Repair the receiver: what waits is sent then.{' '}
          <Link href={`/deliveries?endpoint=${id}&outcome=failed`}>Answers</Link>
        </>
      );
  }
}

/** Leads those who may reconnect a mailbox to its form at once. */
function ReconnectLink({ id }: { id: string }) {
  const { change } = useMay();
  return <Link href={change ? `/mailboxes/connect?account=${id}` : `/mailboxes/${id}`}>Reconnect it</Link>;
}

function Table({ problems }: { problems: Shown[] }) {
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col">Problem</th>
            <th scope="col">Detail</th>
            <th scope="col">Since</th>
            <th scope="col">What helps</th>
          </tr>
        </thead>
        <tbody>
          {problems.map(({ key, kind, href, name, detail, since, next }) => (
            <tr key={key}>
              <td>
                <Link href={href} class="strong">
                  {name}
                </Link>
              </td>
              <td class="first">
                <Badge tone={KIND[kind][1]}>{KIND[kind][0]}</Badge>
              </td>
              <td class="small" data-label="Detail">
                <span>{detail}</span>
              </td>
              <td data-label="Since">
                <Time at={since} />
              </td>
              <td class="small" data-label="What helps">
                <span>{next}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
