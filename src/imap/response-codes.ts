import { FolderMissing, MailError } from '../mail-error.ts';
import { textOf, type Untagged } from './tokens.ts';

/** A response code such as `[COPYUID 38 304 56]`; lists within it are left out. */
export interface ResponseCode {
  name: string;
  values: string[];
}

/** The response code of a status response. */
export function responseCode(response: Untagged): ResponseCode | undefined {
  const first = response.attributes?.[0];
  const section = first && !Array.isArray(first) ? first.section : undefined;
  const [name, ...values] = (section ?? []).map(textOf);
  return name ? { name: name.toUpperCase(), values: values.filter((value) => value !== undefined) } : undefined;
}

/** The response code with which a command was refused (RFC 5530), in capitals; undefined when there was none. */
export function refusalCode(error: unknown): string | undefined {
  if (!(error instanceof MailError) || !error.refused) return undefined;
  const cause = (error.cause ?? {}) as { serverResponseCode?: string; response?: Untagged | string };
  if (cause.serverResponseCode) return cause.serverResponseCode.toUpperCase();
  return typeof cause.response === 'object' ? responseCode(cause.response)?.name : undefined;
}

/** Whether the server refused the command because a folder that it names does not exist. */
export function refusedAsMissing(error: unknown): boolean {
  return error instanceof FolderMissing || ['TRYCREATE', 'NONEXISTENT'].includes(refusalCode(error) ?? '');
}
