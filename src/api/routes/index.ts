import { accountRoutes } from './accounts.ts';
import { apiKeyRoutes } from './api-keys.ts';
import { auditRoutes } from './audit.ts';
import { attachmentRoutes } from './mail/attachments.ts';
import { contactRoutes } from './mail/contacts.ts';
import { authLinkRoutes } from './auth-links.ts';
import { batchRoutes } from './mail/batches.ts';
import { conversationRoutes } from './conversations.ts';
import { deviceSignInRoutes } from './device-sign-ins.ts';
import { draftRoutes } from './mail/drafts.ts';
import { emailChangeRoutes, emailRoutes } from './mail/emails.ts';
import { emailViewRoutes } from './mail/email-view.ts';
import { endpointRoutes } from './endpoints.ts';
import { eventStreamRoutes } from './event-stream.ts';
import { eventRoutes } from './events.ts';
import { folderChangeRoutes, folderRoutes } from './mail/folders.ts';
import { historyRoutes } from './history.ts';
import { importRoutes } from './imports.ts';
import { lookupRoutes } from './lookup.ts';
import { oauthAppRoutes } from './oauth-apps.ts';
import { overviewRoutes } from './overview.ts';
import { personRoutes } from './persons.ts';
import { replayRoutes } from './replays.ts';
import type { Routes } from './route.ts';
import { sendRoutes } from './mail/send.ts';
import { sessionRoutes } from './session.ts';
import { threadRoutes } from './mail/threads.ts';
import { uploadRoutes } from './mail/uploads.ts';

/** Every route under /api/v1. */
export const ROUTES: readonly Routes[] = [
  accountRoutes,
  importRoutes,
  emailRoutes,
  emailChangeRoutes,
  batchRoutes,
  historyRoutes,
  sendRoutes,
  uploadRoutes,
  attachmentRoutes,
  threadRoutes,
  folderRoutes,
  folderChangeRoutes,
  draftRoutes,
  contactRoutes,
  endpointRoutes,
  conversationRoutes,
  eventRoutes,
  replayRoutes,
  apiKeyRoutes,
  personRoutes,
  auditRoutes,
  sessionRoutes,
  authLinkRoutes,
  oauthAppRoutes,
  deviceSignInRoutes,
  emailViewRoutes,
  eventStreamRoutes,
  overviewRoutes,
  lookupRoutes,
];
