/** Bytes with random access. */
export interface RandomAccess {
  size: number;
  /** returns fewer bytes at the end */
  read(at: number, length: number): Buffer;
}

/** One file in a TNEF. */
export interface TnefFile {
  /** the long name, else the short one */
  name: string | null;
  mime: string | null;
  /** Content-ID as written */
  cid: string | null;
  /** offset of its bytes */
  at: number;
  size: number;
}

/** The contents of a TNEF. */
export interface TnefContents {
  files: TnefFile[];
  /**
   * it contains more than files: an embedded message, an OLE object, a file that is elsewhere, properties that cannot be
   * read
   */
  hasMore: boolean;
  /** it has a text of the message, in any format */
  hasText: boolean;
  /** that text if it is plain and at most `maxText` long */
  text: string | null;
}

export interface TnefLimits {
  /** a TNEF with more files is not read (default and at most 500) */
  maxFiles?: number;
  /** bytes of the longest text that is read (default 1 MB) */
  maxText?: number;
  /** called periodically; true: stop reading */
  isTimeUp?: () => boolean;
}
