import type { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import pg from 'pg';
import { Parser } from 'pg-protocol/dist/parser.js';

/*
 * pg decodes every value into a string, also those of statements with `binary: true`, whose values come in Postgres' binary
 * format: of text and json that is the text in UTF-8. A page of emails has half a megabyte of it, which would become strings
 * only to be encoded again for the response. So rows in binary format are given as they came: each value is a Buffer.
 */

/** A client that gives the values of statements with `binary: true` as bytes, of a copy of the row. */
export class BytesClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    const { connection } = this as unknown as { connection: Connection };
    connection.attachListeners = (stream) => {
      const parser = parserOfBytes();
      stream.on('data', (chunk: Buffer) => {
        parser.parse(chunk, (message) => {
          if (connection._emitMessage) connection.emit('message', message);
          connection.emit(message.name === 'error' ? 'errorMessage' : message.name, message);
        });
      });
    };
  }
}

/** The same statement with rows that are arrays of bytes; null is null. */
export function withBytes<S extends pg.QueryConfig>(statement: S): S & pg.QueryArrayConfig {
  const asBytes = { binary: true, types: { getTypeParser: () => (bytes: unknown) => bytes as never } };
  return { ...statement, ...asBytes, rowMode: 'array' };
}

/** What is used here of pg's Connection. */
interface Connection extends EventEmitter {
  _emitMessage: boolean;
  attachListeners(stream: Readable): void;
}

interface Message {
  name: string;
  length: number;
  fields?: unknown[];
}

/** What is used here of pg's Parser. */
interface PacketParser {
  parse(chunk: Buffer, callback: (message: Message) => void): void;
  handlePacket(offset: number, code: number, length: number, bytes: Buffer): Message;
}

// https://www.postgresql.org/docs/current/protocol-message-formats.html
const ROW_DESCRIPTION = 'T'.charCodeAt(0);
const DATA_ROW = 'D'.charCodeAt(0);
/** The length of a message counts itself. */
const LENGTH_BYTES = 4;
const NULL = -1;

function parserOfBytes(): PacketParser {
  const parser = new Parser() as unknown as PacketParser;
  const handlePacket = parser.handlePacket.bind(parser);
  let isBinary = false;
  parser.handlePacket = (offset, code, length, bytes) => {
    if (code === DATA_ROW && isBinary) return rowOf(bytes.subarray(offset, offset + length - LENGTH_BYTES), length);
    const message = handlePacket(offset, code, length, bytes);
    if (code === ROW_DESCRIPTION) isBinary = (message.fields?.[0] as pg.FieldDef | undefined)?.format === 'binary';
    return message;
  };
  return parser;
}

/** The parser uses its buffer again, hence the copy. */
function rowOf(body: Buffer, length: number): Message & { fieldCount: number } {
  const row = Buffer.from(body);
  const fieldCount = row.readInt16BE(0);
  const fields: (Buffer | null)[] = [];
  let at = 2;
  for (let index = 0; index < fieldCount; index++) {
    const size = row.readInt32BE(at);
    at += 4;
    fields.push(size === NULL ? null : row.subarray(at, at + size));
    if (size !== NULL) at += size;
  }
  return { name: 'dataRow', length, fieldCount, fields };
}
