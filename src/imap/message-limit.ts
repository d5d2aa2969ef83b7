import type { ImapFlow } from 'imapflow';

/** A lower limit is believed only when the server states it: messages may be missing for other reasons. */
const LEAST_OBSERVED = 20;

/** Most messages that one command of a session may name (MESSAGELIMIT, RFC 9738). */
export class MessageLimit {
  private known = Infinity;
  /** the most messages of one response so far: one with fewer was not cut at a limit */
  shown = LEAST_OBSERVED;

  /** Notes the limits that responses report. */
  follow(client: NodeJS.EventEmitter): void {
    client.on('messagelimit', (limit: number) => this.lower(limit));
  }

  /** Notes that the server left out messages after it had processed so many. */
  observe(processed: number): void {
    this.lower(Math.max(processed, LEAST_OBSERVED));
  }

  /** Notes how many messages a response had. */
  show(count: number): void {
    this.shown = Math.max(this.shown, count);
  }

  /** Infinity: no limit is known. */
  of({ capabilities }: ImapFlow): number {
    for (const name of capabilities.keys()) {
      const [, announced] = /^MESSAGELIMIT=([1-9]\d*)$/i.exec(name) ?? [];
      if (announced) return Math.min(Number(announced), this.known);
    }
    return this.known;
  }

  private lower(limit: number): void {
    if (limit >= 1) this.known = Math.min(this.known, limit);
  }
}
