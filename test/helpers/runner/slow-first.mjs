import Sequencer from '@jest/test-sequencer';

/** Approximate seconds of the slowest files: jest knows times only from an earlier run. */
const SECONDS = {
  'releases/upgrade': 120,
  'live/front/start': 75,
  'live/account': 70,
  'live/failures/crash': 65,
  'live/changes': 60,
  'live/folder-operations': 55,
  'live/failures/outage': 55,
  'live/operations': 50,
  'live/failures/crash-writes': 50,
  'live/failures/odd-imap': 50,
  'workflows/deliver-webhooks': 45,
  'workflows/deliver-crash': 40,
  'live/other-servers': 40,
  'live/gmail-like': 40,
  'mailbox/large-folders': 40,
  'live/failures/hostile-imap': 35,
  'live/front/privacy': 35,
  'live/failures/silent-imap': 30,
  'live/folders': 30,
  'live/failures/send-failures': 30,
  'mailbox/sync-pass': 30,
  'mailbox/vacate': 25,
  'mime/parser': 25,
  'live/watch': 25,
  'workflows/account': 25,
  'workflows/replay': 20,
  'workflows/send-email': 20,
};
const LIVE_SECONDS = 20;

/** Starts the slowest files first. */
// jest loads a class by its default export
export default class SlowFirst extends Sequencer {
  sort(tests) {
    return [...super.sort(tests)].sort((a, b) => secondsOf(b) - secondsOf(a));
  }
}

function secondsOf({ path, duration }) {
  if (duration !== undefined) return duration / 1000;
  const name = /\/test\/(.*)\.test\.ts$/.exec(path)?.[1] ?? '';
  return SECONDS[name] ?? (name.startsWith('live/') ? LIVE_SECONDS : 0);
}
