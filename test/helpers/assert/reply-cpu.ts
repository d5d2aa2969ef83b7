import { createRequire } from 'node:module';
import { readReplyText } from '../../../src/mime/reply/reply-text.ts';
import { leastCpu } from './least-cpu.ts';

/*
 * A separate program: in a process that has loaded much code (16 MB), V8 compiles further regular expressions without
 * optimizing them; a process that had run many other tests took twenty times as long.
 */
const Library = createRequire(import.meta.url)('email-reply-parser') as new () => { parseReply(text: string): string };

const text = Array.from({ length: 1_200 }, (_, n) => `A line on some day at <a> place ${n}`).join('\n');
const library = leastCpu(() => new Library().parseReply(text));
const ours = leastCpu(() => {
  for (let index = 0; index < 4; index++) readReplyText(text);
}, library);
process.stdout.write(JSON.stringify({ library, ours, isWhole: readReplyText(text) === text }));
