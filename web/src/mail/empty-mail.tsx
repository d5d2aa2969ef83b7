import { Empty } from '../ui/parts.tsx';

/** A list without mail. */
export function EmptyMail({ filtered }: { account: string; filtered: boolean }) {
  return filtered ? (
    <Empty title="No email fits">Try other words, another folder, or all mail.</Empty>
  ) : (
    <Empty title="No mail yet">
      What arrives from now on is shown here within seconds. Send a test mail to see it.
    </Empty>
  );
}
