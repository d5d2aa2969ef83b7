import type { Readable } from 'node:stream';
import Type from 'typebox';
import type { Email } from '../../../contract/email.ts';
import { getAttachment } from '../../../db/queries/mail/attachments.ts';
import { getEmail } from '../../../db/queries/mail/emails.ts';
import { parsePieces } from '../../../db/driver/json-text.ts';
import { isLost } from '../../../storage/encrypted.ts';
import { viewHeaders, viewPage } from '../../email-view.ts';
import { EmailParams } from './emails.ts';
import { existing, responsesAs, type RouteDeps, type Routes } from '../route.ts';

/** Total bytes of the pictures in one page; pictures beyond it are omitted. */
const INLINE_BYTES = 8 * 1024 * 1024;
const INLINE_TYPES = /^image\/(png|jpe?g|gif|webp|bmp)$/i;

/** Route that renders an email as a page that is safe to show in a frame. */
export const emailViewRoutes: Routes = (app, deps) => {
  app.get(
    '/:account_id/emails/:email_id/view',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'viewEmail',
        summary: 'Render an email as a page',
        description:
          'Returns the HTML of the email for a frame in a page of this origin, with its inline pictures. The response headers ' +
          'block scripts and remote images.',
        params: EmailParams,
        querystring: Type.Object({
          remote_images: Type.Boolean({ default: false, description: 'allow remote images' }),
        }),
        response: responsesAs('text/html', 'The page', Type.String(), 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      const stored = await getEmail(deps.pool, params.account_id, params.email_id, { metaOnly: false });
      const email = parsePieces(existing(stored, 'email'));
      const page = viewPage(email.body, {
        inline: await inlinePictures(deps, email),
        remoteImages: query.remote_images,
      });
      return reply
        .headers(viewHeaders({ remoteImages: query.remote_images }))
        .type('text/html; charset=utf-8')
        .send(page);
    },
  );
};

async function inlinePictures({ pool, storage }: RouteDeps, email: Email): Promise<Map<string, string>> {
  const pictures = new Map<string, string>();
  let room = INLINE_BYTES;
  for (const { id, cid, mime, size } of email.attachments) {
    if (cid === null || !INLINE_TYPES.test(mime) || size > room || !email.body.includes('cid:')) continue;
    const stored = await getAttachment(pool, email.account_id, email.id, id);
    if (!stored) continue;
    const picture = await storage
      .get(stored.storageKey)
      .then(read)
      .catch((error: unknown) => {
        if (!isLost(error)) throw error;
        return undefined;
      });
    if (!picture) continue;
    room -= size;
    pictures.set(cid, `data:${mime};base64,${picture.toString('base64')}`);
  }
  return pictures;
}

async function read(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
