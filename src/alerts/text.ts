import type { AlertedProblem } from '../contract/overview.ts';

/** More problems of one kind and server than this are one line. */
const SINGLY = 5;
const NAMED = 3;

/** What a message says to people: who, what, since when, and where to look. */
export function alertText(opened: AlertedProblem[], closed: AlertedProblem[], installation: string): string {
  const sections = [section('New', opened, installation), section('Over', closed, installation)];
  return sections.filter((text) => text !== '').join('\n\n');
}

/** The subject of the mail, in ASCII. */
export function alertSubject({
  opened_total: opened,
  closed_total: closed,
}: {
  opened_total: number;
  closed_total: number;
}) {
  const parts = [
    ...(opened > 0 ? [`${opened} new ${opened === 1 ? 'problem' : 'problems'}`] : []),
    ...(closed > 0 ? [`${closed} over`] : []),
  ];
  return `Email API: ${parts.join(', ')}`;
}

function section(title: string, problems: AlertedProblem[], installation: string): string {
  if (problems.length === 0) return '';
  const groups = new Map<string, AlertedProblem[]>();
  for (const problem of problems) {
    const key = `${problem.kind} ${problem.server ?? ''}`;
    groups.set(key, [...(groups.get(key) ?? []), problem]);
  }
  const lines = [...groups.values()].flatMap((group) =>
    group.length > SINGLY ? [together(group, installation)] : group.map((problem) => line(problem, installation)),
  );
  return [`${title}:`, ...lines.map((text) => `- ${text}`)].join('\n');
}

function line(problem: AlertedProblem, installation: string): string {
  const { text, path } = WORDS[problem.kind](problem);
  return `${text}: ${sentence(problem.detail)} ${times(problem)} ${installation}${path}`;
}

/** Many problems of one kind and server. */
function together(group: AlertedProblem[], installation: string): string {
  const [first] = group;
  if (!first) return '';
  const names = `${group
    .slice(0, NAMED)
    .map(({ name }) => name)
    .join(', ')} and ${group.length - NAMED} others`;
  const what =
    first.kind === 'endpoint_failing' ? 'endpoints fail' : `mailboxes at ${first.server ?? ''} ${STATE[first.kind]}`;
  return `${group.length} ${what} (${names}): ${sentence(first.detail)} ${times(first)} ${installation}/`;
}

const STATE: Record<AlertedProblem['kind'], string> = {
  mailbox_disconnected: 'are disconnected',
  mailbox_unreachable: 'cannot be reached',
  server_unreachable: 'cannot be reached',
  endpoint_failing: 'fail',
  backlog: 'wait',
};

const WORDS: Record<AlertedProblem['kind'], (problem: AlertedProblem) => { text: string; path: string }> = {
  mailbox_disconnected: ({ id, name }) => ({ text: `Mailbox ${name} is disconnected`, path: `/mailboxes/${id ?? ''}` }),
  mailbox_unreachable: ({ id, name }) => ({
    text: `Mailbox ${name} cannot be reached`,
    path: `/mailboxes/${id ?? ''}`,
  }),
  server_unreachable: ({ name, count }) => ({
    text: `Server ${name} of ${count} mailboxes cannot be reached`,
    path: '/mailboxes?status=errored',
  }),
  endpoint_failing: ({ id, name }) => ({ text: `Endpoint ${name} fails`, path: `/endpoints/${id ?? ''}` }),
  backlog: () => ({ text: 'Deliveries pile up', path: '/deliveries?status=pending' }),
};

const sentence = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);
const timeOf = (iso: string) => new Date(iso).toUTCString().replace('GMT', 'UTC');

const times = ({ since, ended_at: end }: AlertedProblem) =>
  end === null ? `Since ${timeOf(since)}.` : `From ${timeOf(since)} to ${timeOf(end)}.`;
