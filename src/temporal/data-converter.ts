import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { type CodecKeys, createPayloadCodec } from './codec.ts';

/** The module that the bundler of workflows needs to know as well. */
export const FAILURE_CONVERTER_PATH = fileURLToPath(new URL('./failure-converter.cjs', import.meta.url));

/** How every client of this product writes to Temporal: all payloads encrypted, failures too. */
export function createDataConverter(keys: CodecKeys): DataConverter {
  return { failureConverterPath: FAILURE_CONVERTER_PATH, payloadCodecs: [createPayloadCodec(keys)] };
}

/** The same for workers: what others gave to a workflow comes marked, and the interceptors of the workflows refuse it. */
export function createWorkerDataConverter(keys: CodecKeys): DataConverter {
  return { failureConverterPath: FAILURE_CONVERTER_PATH, payloadCodecs: [createPayloadCodec(keys, 'mark')] };
}
