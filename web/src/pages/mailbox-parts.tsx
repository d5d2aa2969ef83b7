import { Link } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import type { Account } from '../api/client.ts';

/** A mailbox in a list: its name, which leads to it, and its login where that is another. */
export function MailboxLink({ account: { id, name, user_id: user } }: { account: Account }) {
  return (
    <>
      <Link href={`/mailboxes/${id}`} class="strong">
        {name}
      </Link>
      {name !== user && <span class="sub">{user}</span>}
    </>
  );
}

/** Why a mailbox is not running. */
export function StateDetail({ account: { status, status_detail: detail } }: { account: Account }) {
  return status === 'running' ? null : <span class="sub">{detail}</span>;
}

/** Leads those who may to the form that connects a mailbox. */
export function ConnectButton() {
  return (
    <Allowed to="manage">
      <Link href="/mailboxes/connect" class="button main-action">
        Connect a mailbox
      </Link>
    </Allowed>
  );
}
