import { Empty } from '../ui/parts.tsx';
import { importing, percent, useImports } from './imports/imports.ts';
import { useAccount } from './use-account.ts';

/** A list without mail. */
export function EmptyMail({ account, filtered }: { account: string; filtered: boolean }) {
  const mailbox = useAccount(account);
  const imports = useImports(account);
  const running = importing(mailbox.data?.initial_sync, imports.data?.data);
  if (running && !filtered)
    return (
      <Empty title="Mail is being imported">
        {running.share === undefined ? 'It is being counted.' : `${percent(running.share)} is read.`} What is read is
        shown here at once.
      </Empty>
    );
  return filtered ? (
    <Empty title="No email fits">Try other words, another folder, or all mail.</Empty>
  ) : (
    <Empty title="No mail yet">
      What arrives from now on is shown here within seconds. Send a test mail to see it.
    </Empty>
  );
}
