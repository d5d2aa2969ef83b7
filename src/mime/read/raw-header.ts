/** A header field as sent, unfolded: one character a byte, encoded words not decoded. */
export interface RawHeader {
  /** as written */
  name: string;
  /** lower-cased name */
  key: string;
  raw: string;
}
