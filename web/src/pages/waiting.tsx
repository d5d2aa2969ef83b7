import { Link } from 'wouter-preact';
import type { Schemas } from '../api/client.ts';
import { Time } from '../ui/parts.tsx';

type Waiting = Schemas['WaitingFor'];

const WORDS: Record<Waiting['reason'], string> = {
  breaker: 'its endpoint is failing',
  order: 'an earlier event goes first',
  retry: 'next attempt',
  replay: 'live events go first',
  due: 'being attempted, or next',
};

/** Why a delivery is not made now, until when, and what it is behind. Nothing for one that has ended. */
export function WaitsFor({ waiting }: { waiting: Waiting | null | undefined }) {
  if (!waiting) return null;
  const { reason, until, behind } = waiting;
  return (
    <span>
      {WORDS[reason]}
      {until && (
        <>
          {reason === 'breaker' && ', next call'} <Time at={until} />
        </>
      )}
      {behind && (
        <>
          {' '}
          (behind <Link href={`/deliveries/${behind}`}>another</Link>)
        </>
      )}
    </span>
  );
}
