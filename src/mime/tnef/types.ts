/** Bytes that are read where they are needed. */
export interface RandomAccess {
  size: number;
  /** fewer bytes at the end */
  read(at: number, length: number): Buffer;
}

/** One file in a TNEF. */
export interface TnefFile {
  /** the long name, else the short one */
  name: string | null;
  mime: string | null;
  /** Content-ID as it is written */
  cid: string | null;
  /** where its bytes are */
  at: number;
  size: number;
}

/** What a TNEF holds. */
export interface TnefContents {
  files: TnefFile[];
  /**
   * it holds something else besides that is no file: an embedded message, an OLE object, a file that is elsewhere, properties
   * that cannot be read
   */
  hasMore: boolean;
  /** it has a text of the message, in any format */
  hasText: boolean;
  /** that text where it is plain, and no longer than `maxText` */
  text: string | null;
}

export interface TnefLimits {
  /** a TNEF with more files is not read (default and at most 500) */
  maxFiles?: number;
  /** bytes of the longest text that is read (default 1 MB) */
  maxText?: number;
  /** asked now and then; true: stop reading */
  isTimeUp?: () => boolean;
}
