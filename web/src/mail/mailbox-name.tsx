import { useAccount } from './use-account.ts';

/** The name of a mailbox. */
export function MailboxName({ id }: { id: string }) {
  const mailbox = useAccount(id);
  return <>{mailbox.data?.name ?? '…'}</>;
}
