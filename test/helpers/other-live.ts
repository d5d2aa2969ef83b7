/**
 * Test files that `npm test` leaves out when it is given no paths, and `npm run test:live` runs: long ones on whole
 * products, whose ground shorter files cover. CI runs both.
 */
export const OTHER_LIVE: readonly string[] = [
  'chaos/live',
  'fuzz/fuzz',
  'imap/write-dovecot',
  'live/account',
  'live/changes',
  'live/connect-page',
  'live/crash-writes',
  'live/crash',
  'live/dashboard',
  'live/folder-operations',
  'live/gmail-like',
  'live/gmail-operations',
  'live/hostile-imap',
  'live/kills',
  'live/lost-folder-answers',
  'live/odd-imap',
  'live/operations',
  'live/other-servers',
  'live/outage',
  'live/removal',
  'live/send-failures',
  'live/sending-elsewhere',
  'live/silent-imap',
  'live/two-workers',
  'live/web-page',
  'mailbox/large-folders',
  'mailbox/vacate',
  'workflows/deliver-crash',
].map((name) => `test/${name}.test.ts`);
