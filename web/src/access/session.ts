import { type Query, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useEffect, useState } from 'preact/hooks';
import { api, onSignedOut, type Session, take } from '../api/client.ts';
import { keepUnsentOf } from '../mail/answer/unsent.ts';
import { SESSION } from './may.tsx';

/** Who is signed in: the id of a person or of a key. */
export const identityOf = ({ person, api_key_id: key }: Session): string => person?.id ?? key ?? '';

/** Written at a sign-out, of which the other tabs learn by it. */
const SIGNED_OUT = 'signed-out';

const isOther = ({ queryKey }: Query) => queryKey[0] !== SESSION[0];

/** The session of this browser; null: there was none since the page was opened, or it was signed out. */
export function useSession() {
  const queries = useQueryClient();
  const [hasEnded, setEnded] = useState(false);
  const before = () => queries.getQueryData<Session | null>(SESSION) ?? null;
  const accept = (data: Session): Session => {
    const last = before();
    // what one has seen is not for another
    if (last && identityOf(last) !== identityOf(data)) queries.removeQueries({ predicate: isOther });
    keepUnsentOf(identityOf(data));
    return data;
  };
  const session = useQuery({
    queryKey: SESSION,
    queryFn: async () => {
      const answer = await api.GET('/api/v1/session');
      setEnded(answer.response.status === 401);
      // the pages of the last one stay below the sign-in
      if (answer.response.status === 401) return before();
      return accept(await take(Promise.resolve(answer)));
    },
    staleTime: 60_000,
    // a sign-in in another tab is found
    refetchOnWindowFocus: hasEnded ? 'always' : true,
  });
  useEffect(() => {
    const forget = ({ key }: StorageEvent) => key === SIGNED_OUT && keepUnsentOf(null);
    addEventListener('storage', forget);
    return () => removeEventListener('storage', forget);
  }, []);
  useEffect(
    () =>
      onSignedOut(() => {
        // a response may be older than the session: it is asked for
        if (!hasEnded) void queries.refetchQueries({ queryKey: SESSION }, { cancelRefetch: false });
      }),
    [queries, hasEnded],
  );
  return {
    session,
    /** the session of the pages that are shown has ended */
    hasEnded,
    signedIn: (data: Session) => {
      queries.setQueryData(SESSION, accept(data));
      setEnded(false);
      void queries.invalidateQueries({ predicate: isOther });
    },
    signedOut: () => {
      keepUnsentOf(null);
      tellOtherTabs();
      // the page follows this query: it must not be removed with the others
      queries.setQueryData(SESSION, null);
      queries.removeQueries({ predicate: isOther });
    },
  };
}

function tellOtherTabs(): void {
  try {
    localStorage.setItem(SIGNED_OUT, String(Date.now()));
  } catch {
    // switched off
  }
}
