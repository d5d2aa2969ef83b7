import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { type CodecKeys, createPayloadCodec } from './codec.ts';

/** The module that the bundler of workflows needs to know as well. */
export const FAILURE_CONVERTER_PATH = fileURLToPath(new URL('./failure-converter.cjs', import.meta.url));

/** The data converter of clients: encrypts all payloads and failures. */
export function createDataConverter(keys: CodecKeys): DataConverter {
  return { failureConverterPath: FAILURE_CONVERTER_PATH, payloadCodecs: [createPayloadCodec(keys)] };
}

/**
 * The data converter of workers: encrypts all payloads and failures, and marks those of other programs, which the
 * interceptors of the workflows refuse.
 */
export function createWorkerDataConverter(keys: CodecKeys): DataConverter {
  return { failureConverterPath: FAILURE_CONVERTER_PATH, payloadCodecs: [createPayloadCodec(keys, 'mark')] };
}
