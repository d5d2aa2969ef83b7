import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { type CodecKeys, createPayloadCodec } from './codec.ts';

/** The module that the bundler of workflows needs to know as well. */
export const FAILURE_CONVERTER_PATH = fileURLToPath(new URL('./failure-converter.cjs', import.meta.url));

/** How every client and worker of this product writes to Temporal: all payloads encrypted, failures too. */
export function createDataConverter(keys: CodecKeys): DataConverter {
  return { failureConverterPath: FAILURE_CONVERTER_PATH, payloadCodecs: [createPayloadCodec(keys)] };
}
