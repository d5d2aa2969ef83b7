import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Permissions } from '../contract/api-key.ts';
import { recordAudit } from '../db/access/audit.ts';
import { hasInvitedPersons } from '../db/access/invited-persons.ts';
import { admitPerson, labelOf, removePerson } from '../db/access/persons.ts';
import { createSession, deleteSession } from '../db/access/sessions.ts';
import { type Identity, type IdentitySecrets, newIdentitySecrets } from '../oauth/identity.ts';
import type { Secrets } from '../security/secrets.ts';
import type { ApiDeps, PersonSignIn } from './deps.ts';
import { limitCalls } from './http/limit-calls.ts';
import { clearCookie, cookieOf, sessionToken, setCookie, setSessionCookie } from './http/session-cookie.ts';
import { sendLead } from './lead.ts';

/*
 * Sign-in of people: the browser goes to the identity provider and returns to the callback. A sealed cookie holds what the sign-in
 * began with, so that a response counts in the browser that asked for it, once, within ten minutes.
 */

const PATH = '/sign-in/oidc';
const COOKIE = 'email_api_oidc';
const LIFE_S = 600;
const CALLS_PER_MINUTE = 60;

interface Began extends IdentitySecrets {
  returnTo: string;
  /** ms since 1970 */
  endsAt: number;
}

/** Why a sign-in failed, for the sign-in page. */
type SignInError = 'unavailable' | 'expired' | 'refused' | 'no_role';

/** Serves the sign-in of people, and the ways to sign in for the sign-in page. */
export function servePersonSignIn(app: FastifyInstance, deps: ApiDeps): void {
  const { db, signIn, settings, secrets, logger } = deps;
  const { publicUrl } = settings;
  const hidden = { schema: { hide: true } };
  const limit = limitCalls(CALLS_PER_MINUTE);
  const redirectUrl = `${publicUrl}${PATH}/callback`;
  const errorPage = (error: SignInError) => `${publicUrl}/sign-in?error=${error}`;

  app.get('/sign-in/options', hidden, async () => ({
    oidc: signIn !== undefined,
    password: await hasInvitedPersons(db),
  }));
  if (signIn === undefined) return;

  app.get(PATH, hidden, async (request, reply) => {
    limit(request.ip);
    const fresh = newIdentitySecrets();
    const asked = new URL(request.url, publicUrl).searchParams.get('return');
    try {
      const url = await signIn.provider.authorizationUrl(fresh, redirectUrl);
      const began: Began = { ...fresh, returnTo: returnUrl(asked, publicUrl), endsAt: Date.now() + LIFE_S * 1000 };
      const value = secrets.seal(SEALED_AT, JSON.stringify(began)).toString('base64url');
      // the provider's page sends the browser back: with Strict it would have no cookie
      setCookie(request, reply, { publicUrl, name: COOKIE, value, sameSite: 'Lax', end: `Max-Age=${LIFE_S}` });
      return await reply.redirect(url);
    } catch (error) {
      logger.error({ reason: reasonOf(error) }, 'identity provider unavailable');
      return reply.redirect(errorPage('unavailable'));
    }
  });

  app.get(`${PATH}/callback`, hidden, async (request, reply) => {
    limit(request.ip);
    clearCookie(request, reply, { publicUrl, name: COOKIE });
    const began = openCookie(secrets, cookieOf(request, { publicUrl, name: COOKIE }));
    if (!began) return sendLead(reply, errorPage('expired'));
    const query = new URL(request.url, publicUrl).searchParams;
    const identity = await signIn.provider.identify(query, began, redirectUrl).catch((error: unknown) => {
      logger.warn({ reason: reasonOf(error) }, 'sign-in of a person refused');
      return undefined;
    });
    if (!identity) return sendLead(reply, errorPage('refused'));
    const personId = await admit(deps, signIn, request, identity);
    if (personId === undefined) return sendLead(reply, errorPage('no_role'));
    const before = sessionToken(request, publicUrl);
    if (before !== undefined) await deleteSession(deps.pool, before);
    setSessionCookie(request, reply, { session: await createSession(deps.db, personId), publicUrl });
    return sendLead(reply, began.returnTo);
  });
}

/** Stores who signed in, or removes a person who has no role any longer. Undefined: they have none. */
async function admit(
  { db }: ApiDeps,
  { groups }: PersonSignIn,
  { ip: address, id: requestId }: FastifyRequest,
  identity: Identity,
): Promise<string | undefined> {
  const permissions = permissionsOf(identity.groups, groups);
  let id: string | null = null;
  if (permissions === undefined) await removePerson(db, identity);
  else id = await admitPerson(db, { ...identity, permissions });
  await recordAudit(db, {
    ...{ at: new Date(), action: 'session.create', status: id === null ? 403 : 200 },
    ...{ apiKeyId: id, actorName: labelOf(identity), address, requestId, objectId: null, objectName: null },
  });
  return id ?? undefined;
}

/** The most that one of the groups may do; `*` is in everyone's. */
export function permissionsOf(groups: readonly string[], allowed: PersonSignIn['groups']): Permissions | undefined {
  const may = (permissions: Permissions) =>
    allowed[permissions].some((group) => group === '*' || groups.includes(group));
  return (['full', 'operate', 'read'] as const).find(may);
}

/** The page to show afterwards: one of this dashboard, its first one where `asked` is anything else. */
export function returnUrl(asked: string | null, publicUrl: string): string {
  const base = new URL(`${publicUrl}/`);
  if (!asked?.startsWith('/') || !URL.canParse(`.${asked}`, base.href)) return base.href;
  const url = new URL(`.${asked}`, base.href);
  const isOurs = url.origin === base.origin && url.pathname.startsWith(base.pathname) && !url.pathname.includes('//');
  return isOurs && !url.pathname.startsWith(`${base.pathname}sign-in`) ? url.href : base.href;
}

/** The location of a sealed cookie, which is no column. */
const SEALED_AT = { table: 'cookies', column: COOKIE, id: '' };

/** Undefined: it is missing, was not made here, or has expired. */
function openCookie(secrets: Secrets, value: string | undefined): Began | undefined {
  try {
    const began = JSON.parse(secrets.open(SEALED_AT, Buffer.from(value ?? '', 'base64url'))) as Began;
    return began.endsAt > Date.now() ? began : undefined;
  } catch {
    return undefined;
  }
}

/** What went wrong, without claims and tokens, which errors of the library carry. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 300) : 'unknown';
}
